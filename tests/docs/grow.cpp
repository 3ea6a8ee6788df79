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

#include <tutti/tutti.hpp>

#include "support/forked_rank.hpp"

TEST_CASE("a process joins ranks, as in the guide to faults") {
  std::string const name = "docs-grow-" + std::to_string(::getpid());
  pid_t const newcomer = tutti::testing::fork_rank(name + "-newcomer", 0, 1, "60", [&] {
    tutti::join_request request(name, 2);
    auto [comm, step] = request.wait(std::chrono::minutes(10));
    if (tutti::all_reduce(comm, step) != 3 * 7) throw std::runtime_error("another sum");
  });
  tutti::run_local(2, [&](auto& comm) {
    std::uint64_t const step = 7;
    while (comm.size() < 3) {
      tutti::newcomers waiting;
      if (comm.is_main()) waiting = tutti::find_newcomers(name, std::vector{0, 1, 2, 3});
      if (auto larger = tutti::grow(comm, name, waiting, {.word = step}); larger.comm)
        comm = *std::move(larger.comm);  // these ranks, and then the newcomers
    }
    if (tutti::all_reduce(comm, step) != 3 * 7) throw std::runtime_error("another sum");
  });
  int status = 1;
  ::waitpid(newcomer, &status, 0);
  CHECK(status == 0);
}
