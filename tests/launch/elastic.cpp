// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-run --elastic: jobs that go on when ranks are lost, and whose lost ranks are replaced.
// labels: processes waits
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "launch/command.hpp"

using namespace tutti::testing;

namespace {

std::string const run_elastic = TUTTI_RUN " --elastic ", elastic_ranks = " " TUTTI_RANKS " elastic ";

}  // namespace

TEST_CASE("a lost rank is replaced, and the exit code is that of the survivors") {
  for (int const victim : {0, 2}) {
    CAPTURE(victim);
    std::string const number = std::to_string(victim);
    command c(run_elastic + "2:4" + elastic_ranks + number);
    CHECK(c.wait() == 0);
    CAPTURE(c.output);
    CHECK(lines_with(c.output, "tutti-run: rank " + number + " was killed by signal 9 (Killed)\n") == 1);
    CHECK(lines_with(c.output, "tutti-run: rank " + number + " has been replaced\n") == 1);
    CHECK(lines_with(c.output, " of 4: right\n") == 4);
  }
  command c("sh -c 'CODE_OF_SURVIVORS=5 " + run_elastic + "2:4" + elastic_ranks + "1'");
  CHECK(c.wait() == 5);
}

TEST_CASE("a rank that hangs and is excluded is ended and replaced") {
  command c("env VICTIM_HANGS=1 " + run_elastic + "2:3" + elastic_ranks + "1");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: the other ranks have excluded rank 1\n"));
  CHECK(c.said("tutti-run: rank 1 was killed by signal 15 (Terminated)\n"));
  CHECK(lines_with(c.output, " of 3: right\n") + lines_with(c.output, " of 2: right\n") >= 2);
}

TEST_CASE("a job whose ranks nobody loses is as any other") {
  command c(run_elastic + "2:3" + elastic_ranks + "9");
  CHECK(c.wait() == 0);
  CHECK(lines_with(c.output, " of 3: right\n") == 3);
}

TEST_CASE("the number of restarts has a limit, and the others go on") {
  command c(run_elastic + "1:3 --max-restarts 0" + elastic_ranks + "2");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: rank 2 is not replaced, after 0 restarts\n"));
  CHECK(lines_with(c.output, " of 2: right\n") == 2);
}

TEST_CASE("a job ends when fewer ranks are left than it needs") {
  command c(run_elastic + "3:3" + elastic_ranks + "1");
  CHECK(c.wait() != 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: 2 ranks are left, fewer than 3\n"));
  CHECK(c.said("of 3 ranks, 2 are left, and elastic training needs 3; lost are the members 1"));
  command one(run_elastic + "2:2 sh -c '[ $TUTTI_RANK = 1 ] && exit 7; exec sleep 60'");
  CHECK(one.wait() == 7);
  CAPTURE(one.output);
  CHECK(one.said("tutti-run: 1 rank is left, fewer than 2\n"));
}

TEST_CASE("a process that replaces a lost rank is told so, and ended when nobody needs it") {
  stopwatch time;
  command c(
      run_elastic +
      "1:3 sh -c '[ -z \"$TUTTI_ELASTIC_JOIN\" ] || { echo $TUTTI_ELASTIC_JOIN of $TUTTI_ELASTIC; exec sleep 60; };"
      " [ $TUTTI_RANK = 1 ] && exit 7; sleep 2'");
  CHECK(c.wait() == 7);  // nobody has said that the others went on without it
  CAPTURE(c.output);
  CHECK(c.said("1 of 1:3\n"));
  CHECK(time.seconds() < 50);
}

TEST_CASE("if the system has no room for a process, its start is tried again, and the job goes on meanwhile") {
  // Of all forks of tutti-run, the fourth and the fifth fail. Address sanitizers need not be first.
  command c("env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" TUTTI_NO_ROOM " " + run_elastic +
            "1:3 sh -c 'unset LD_PRELOAD; [ -z \"$TUTTI_ELASTIC_JOIN\" ] || { echo $TUTTI_RANK is back; exit 0; };"
            " [ $TUTTI_RANK = 1 ] && exit 7; sleep 6'");
  c.wait();
  CAPTURE(c.output);
  CHECK(lines_with(c.output, "tutti-run: cannot start rank 1 again yet: Resource temporarily unavailable\n") == 1);
  CHECK(c.said("1 is back\n"));
}

TEST_CASE("a program that is not elastic does not join, and its survivors are not disturbed") {
  command c(run_elastic + "1:3 --max-restarts 2 " TUTTI_RANKS " survive 1");
  int const code = c.wait();
  CAPTURE(c.output);
  CHECK(code == 0);
  CHECK(lines_with(c.output, " of 2: right\n") == 2);
}

TEST_CASE("survivors may end before the launcher hears of them") {
  command c(run_elastic + "1:3 sh -c '[ $TUTTI_RANK = 2 ] && kill -STOP $PPID; exec " TUTTI_RANKS " survive 1'");
  for (std::string const r : {"rank 0 of 2: right\n", "rank 1 of 2: right\n"}) c.read_until(r);  // printed as they end
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  c.signal(SIGCONT);
  int const code = c.wait();
  CAPTURE(c.output);
  CHECK(code == 0);
  CHECK_FALSE(c.said("are left, fewer than"));
}

TEST_CASE("a job that a signal ends gets no new processes") {
  command c(run_elastic +
            "1:3 --prefix sh -c '[ -z \"$TUTTI_ELASTIC_JOIN\" ] || echo replaces;"
            " [ $TUTTI_RANK = 1 ] && { echo ready; exec sleep 60; };"
            " trap \"sleep 2; exit 3\" TERM; echo ready; while :; do sleep 0.05; done'");
  for (std::string const r : {"[0] ready", "[1] ready", "[2] ready"}) c.read_until(r);
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: rank 1 was killed by signal 15 (Terminated)\n"));
  CHECK_FALSE(c.said("replaces"));
}

TEST_CASE("a process that nobody needs is killed if it ignores SIGTERM") {
  command c(run_elastic +
            "1:3 sh -c '[ -z \"$TUTTI_ELASTIC_JOIN\" ] || { trap \"\" TERM; echo waits; while :; do sleep 0.1; done; };"
            " [ $TUTTI_RANK = 1 ] && exit 7; sleep 2'");
  CHECK(c.wait() == 7);
  CHECK(c.said("waits\n"));
}

TEST_CASE("a process counts from when it says that it has joined, and the job then has enough ranks again") {
  command c(run_elastic + "3:4 " TUTTI_RANKS " late_join");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: rank 1 has been replaced\n"));
  CHECK(c.said("tutti-run: the ranks that are left go on: 0, 1, 3\n"));
  CHECK_FALSE(c.said("terminating"));
}
