// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/faults.md on processes that join.
// labels: processes
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tutti/grow.hpp>
#include <tutti/tutti.hpp>

#include "support/forked_rank.hpp"

TEST_CASE("a process joins ranks, as in the guide to faults") {
  std::string const name = "docs-grow-" + std::to_string(::getpid());
  pid_t const newcomer = tutti::testing::fork_rank(name + "-newcomer", 0, 1, "60", [&] {
    auto [comm, step] = [&] {
      tutti::join_request request(name, 2);  // the ranks find this process while it exists
      while (true) {
        auto joined = request.wait(std::chrono::minutes(10));
        try {
          tutti::barrier(joined.comm);  // throws if the ranks have kept the old communicator
          return joined;
        } catch (tutti::error const&) {  // wait for the next attempt
        }
      }
    }();
    if (tutti::all_reduce(comm, step) != 3 * 7) throw std::runtime_error("another sum");
  });
  tutti::run_local(2, [&](auto& comm) {
    std::uint64_t const step = 7;
    while (comm.size() < 3) {
      tutti::newcomers waiting;
      if (comm.is_main()) waiting = tutti::find_newcomers(name, std::vector{0, 1, 2, 3});
      auto larger = tutti::grow(comm, name, waiting, {.word = step});
      if (larger.comm) comm = *std::move(larger.comm);  // these ranks, and then the newcomers
      else if (!larger.intact()) comm = comm.shrink();  // a rank is lost or has failed
      if (larger.comm) tutti::barrier(comm);
    }
    if (tutti::all_reduce(comm, step) != 3 * 7) throw std::runtime_error("another sum");
  });
  int status = 1;
  ::waitpid(newcomer, &status, 0);
  CHECK(status == 0);
}
