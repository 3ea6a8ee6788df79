// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run: the ranks of a launcher, or forked ones without a launcher.
// labels: processes
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "launch/command.hpp"
#include "tutti/tutti.hpp"

using namespace tutti::testing;

namespace {

void expect_right(std::string const& line, int ranks) {
  CAPTURE(line);
  command c(line);
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(lines_with(c.output, ": right\n") == ranks);
  for (int r = 0; r < ranks; ++r)
    CHECK(c.said("rank " + std::to_string(r) + " of " + std::to_string(ranks) + ": right\n"));
}

}  // namespace

TEST_CASE("a launcher's ranks are taken, whatever number the program names") {
  expect_right(TUTTI_RUN " -n 3 " TUTTI_RANKS " run 5", 3);
  expect_right(TUTTI_RUN " -n 1 " TUTTI_RANKS " run 5", 1);
}

TEST_CASE("without a launcher as many are forked as the program names") {
  expect_right(TUTTI_RANKS " run 5", 5);
  expect_right(TUTTI_RANKS " run 1", 1);
}

TEST_CASE("numbers of ranks that make no sense are refused, under a launcher too") {
  for (std::string const launcher : {"", TUTTI_RUN " -n 2 "}) {
    command c(launcher + TUTTI_RANKS " run 0");
    CHECK(c.wait() == 1);
    CAPTURE(c.output);
    CHECK(c.said("0 ranks were asked for"));
  }
}

TEST_CASE("a rank that throws fails the program") {
  CHECK_THROWS_WITH_AS(tutti::run(2,
                                  [](auto& comm) {
                                    if (comm.rank() == 1) throw std::runtime_error("no bread in the house");
                                  }),
                       doctest::Contains("rank 1 ended with exit code 1, no bread in the house"), tutti::error);
}
