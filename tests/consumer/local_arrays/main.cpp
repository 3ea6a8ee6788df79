// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results arrive in local variables, in whose place a compiler must not use the values that they had before the call.
#include <tutti/tutti.hpp>

#include <array>
#include <cstdio>
#include <span>

namespace {

bool right = true;

template <class T>
void expect(char const* what, T const& got, T const& wanted) {
  if (got == wanted) return;
  std::fprintf(stderr, "%s gave a wrong result\n", what);
  right = false;
}

}  // namespace

int main() {
  tutti::run_local(2, [](auto& comm) {
    int const rank = comm.rank(), other = 1 - rank;
    if (rank == 0) expect("broadcast of a value", tutti::broadcast(comm, 42), 42);
    else expect("broadcast of a value", tutti::broadcast(comm, -1), 42);
    expect("all_reduce of a value", tutti::all_reduce(comm, 7), 14);

    std::array<int, 1> given{1}, sum{0}, changed{5};
    std::array<int, 2> all{0, 0}, dealt{1, 2}, got{0, 0};
    tutti::all_reduce(comm, given, sum);
    tutti::all_reduce(comm, changed);
    tutti::all_gather(comm, given, all);
    tutti::all_to_all(comm, dealt, got);
    expect("all_reduce", sum, {2});
    expect("all_reduce in place", changed, {10});
    expect("all_gather", all, {1, 1});
    expect("all_to_all", got, {rank + 1, rank + 1});

    int from = 4, to = 3;
    tutti::send_recv(comm, std::span(&from, 1), other, std::span(&to, 1), other);
    expect("send_recv", to, 4);
    int later = 0;
    tutti::all_reduce(tutti::async(comm), std::span(&from, 1), std::span(&later, 1)).wait();
    expect("a started all_reduce", later, 8);
    if (!right) throw tutti::error({.code = tutti::error_code::bad_argument, .what = "a result is wrong"});
  });
  return right ? 0 : 1;
}
