// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// init where the system limits open files or addresses. Not with sanitizers, which open pipes and reserve terabytes of addresses.
// labels: processes waits native optimised
#include <doctest/doctest.h>

#include <string>

#include "launch/command.hpp"

using namespace tutti::testing;

namespace {

// A job whose ranks compute a sum, each after this command of the shell.
std::string sum_after(std::string const& limit, int ranks) {
  return "env TUTTI_TIMEOUT=60 " TUTTI_RUN " -n " + std::to_string(ranks) + " sh -c '" + limit +
         "; exec " TUTTI_RANKS " sum'";
}

}  // namespace

TEST_CASE("too few open files are named at once") {
  for (int const files : {12, 16, 20}) {
    CAPTURE(files);
    stopwatch time;
    command c(sum_after("ulimit -n " + std::to_string(files), 16));
    CHECK(c.wait() == 1);
    CAPTURE(c.output);
    CHECK(c.said("cannot accept connections of 16 ranks: Too many open files"));
    CHECK(c.said("raise the limit of open files (ulimit -n)"));
    CHECK(time.seconds() < 30);
  }
}

TEST_CASE("a rank that gets no address space says why, and the others do not wait for it") {
  stopwatch time;
  command c(sum_after("if [ $TUTTI_RANK = 1 ]; then ulimit -v 300000; fi", 3));
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(c.said("cannot map"));
  CHECK(c.said("set TUTTI_HEAP to fewer bytes, or raise the limit of virtual memory (ulimit -v)"));
  CHECK(time.seconds() < 50);
}

TEST_CASE("ranks share what addresses a limit leaves them") {
  command c(sum_after("ulimit -v 4000000", 4));
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(lines_with(c.output, ": right\n") == 4);
}
