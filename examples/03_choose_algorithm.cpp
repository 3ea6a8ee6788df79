// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four ways to choose the algorithm: let tutti choose, name it at compile time, name it at run time, or set an environment
// variable.
// ranks: 4
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using tutti::algorithm_id, tutti::collective;

// Says something for all ranks.
void say(tutti::communicator<tutti::shm>& comm, char const* who, std::string_view what) {
  if (comm.is_main()) std::printf("%-22s %.*s\n", who, static_cast<int>(what.size()), what.data());
}

void program(tutti::communicator<tutti::shm>& comm) {
  std::vector<float> const mine(100'000, static_cast<float>(comm.rank() + 1));
  std::vector<float> sums(mine.size());
  auto const check = [&] {
    float const expected = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
    if (std::ranges::count(sums, expected) != std::ssize(sums)) throw std::runtime_error("a sum is wrong");
    std::ranges::fill(sums, 0.0f);
  };

  // Nobody says anything: by size, ranks, and whether the operation commutes.
  for (std::size_t const count : {std::size_t{1}, std::size_t{10'000}, mine.size()})
    say(comm, "left to tutti", tutti::explain<float>(comm, collective::all_reduce, count).text);
  tutti::all_reduce(comm, mine, sums);
  check();

  // Compiled in: no table, no look-up; one that does not serve the call or the operation does not compile.
  tutti::all_reduce<tutti::ring>(comm, mine, sums);
  check();
  say(comm, "compiled in", "all_reduce<tutti::ring>(comm, in, out)");

  // Chosen while the program runs, the same on all ranks. What cannot be had is refused before anything is sent.
  for (algorithm_id const id : {algorithm_id::two_shot, algorithm_id::double_binary_tree}) {
    tutti::options const wish{.algorithm = id};
    say(comm, "options::algorithm", tutti::explain<float>(comm, collective::all_reduce, mine.size(), wish).text);
    tutti::all_reduce(comm, mine, sums, tutti::sum{}, wish);
    check();
  }
  try {
    tutti::all_reduce(comm, mine, sums, tutti::sum{}, {.algorithm = algorithm_id::bruck});
    if (comm.size() > 1) throw std::runtime_error("bruck's algorithm does no all_reduce, and was not refused");
  } catch (tutti::error const& refused) {
    say(comm, "refused", refused.what());
  }
}

// A communicator reads TUTTI_ALGORITHM when it is made, so this asks a new one.
void overruled(tutti::communicator<tutti::shm>& comm) {
  say(comm, "TUTTI_ALGORITHM", tutti::explain<float>(comm, collective::all_reduce, 100'000).text);
  auto const chosen = tutti::explain<float>(comm, collective::all_reduce, 100'000).algorithm;
  if (comm.size() > 1 && chosen != algorithm_id::recursive_doubling)
    throw std::runtime_error("TUTTI_ALGORITHM was ignored");
}

}  // namespace

int main() try {
  tutti::run(4, program);
  ::setenv("TUTTI_ALGORITHM", "all_reduce=recursive_doubling,broadcast=ring", 1);
  tutti::run(4, overruled);
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
