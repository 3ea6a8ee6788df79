// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call under callgrind, for instructions.py. The rank `counted` (the third argument) arrives last, so it finds everything that it waits
// for, and its instructions are the same in every call. Arguments: call, elements, counted.
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <valgrind/callgrind.h>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

// valgrind pretends another processor, for which tutti may choose otherwise.
constexpr tutti::options packets{.algorithm = tutti::algorithm_id::one_shot, .protocol = tutti::protocol::packet};

template <class Comm>
void make_call(std::string_view what, Comm& comm, std::vector<float> const& in, std::vector<float>& out) {
  if (what == "barrier") {
    tutti::barrier(comm);
  } else if (what == "broadcast") {
    tutti::broadcast(comm, out, 0, packets);
  } else if (what == "all_reduce/started") {
    tutti::all_reduce(tutti::async(comm), in, out, packets).wait();
  } else if (what == "isend and irecv") {
    int const peer = 1 - comm.rank();
    tutti::work sent = tutti::isend(comm, in, peer);
    tutti::irecv(comm, out, peer).wait();
    sent.wait();
  } else if (what == "all_reduce/one_shot") {
    tutti::all_reduce(comm, in, out, tutti::sum{},
                      {.algorithm = tutti::algorithm_id::one_shot, .protocol = tutti::protocol::staged});
  } else {
    tutti::all_reduce(comm, in, out, packets);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::string_view const what = argv[1];
  auto const count = static_cast<std::size_t>(std::atoi(argv[2]));
  int const counted = std::atoi(argv[3]);
  tutti::run_local(2, [&](auto& comm) {
    std::vector<float> in(count), out(count);
    auto const call = [&] { make_call(what, comm, in, out); };
    for (int i = 0; i < 100; ++i) call();
    for (int i = 0; i < 40; ++i) {
      if (comm.rank() == counted) {
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
        CALLGRIND_TOGGLE_COLLECT;
        call();
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS;
      } else {
        call();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    }
  });
}
