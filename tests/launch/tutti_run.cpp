// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-run: the environment of ranks, their output, and the end of a job.
// labels: processes waits
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "launch/command.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"

using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

std::string const run = TUTTI_RUN " ";

// Two ranks: rank 1 ends with this exit code, and rank 0 does `after` once tutti-run knows.
std::string one_after_the_other(std::filesystem::path const& folder, int code, std::string const& after) {
  std::string const file = folder / "process";
  return run + "-n 2 sh -c 'if [ $TUTTI_RANK = 1 ]; then echo $$ >" + file + ".new; mv " + file + ".new " + file +
         "; exit " + std::to_string(code) + "; fi; until [ -e " + file +
         " ]; do sleep 0.05; done; while kill -0 $(cat " + file + ") 2>/dev/null; do sleep 0.05; done; " + after + "'";
}

// Whether a file that says this exists, now or soon.
bool appears(std::filesystem::path const& file, std::string const& text) {
  for (stopwatch time; time.seconds() < 60; std::this_thread::sleep_for(20ms)) {
    std::ifstream in(file);
    std::string const all{std::istreambuf_iterator(in), {}};
    if (in.is_open() && all.find(text) != all.npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("ranks are numbered, and share a job name that differs between jobs") {
  std::string names[2];
  for (std::string& name : names) {
    command c(run + "-n 3 --prefix sh -c 'echo rank $TUTTI_RANK of $TUTTI_SIZE in $TUTTI_JOB'");
    CHECK(c.wait() == 0);
    CAPTURE(c.output);
    std::size_t const at = c.output.find(" in ");
    REQUIRE(at != c.output.npos);
    name = c.output.substr(at, 4 + 32);
    for (std::string const r : {"[0] rank 0", "[1] rank 1", "[2] rank 2"}) CHECK(c.said(r + " of 3" + name + "\n"));
  }
  CHECK(names[0] != names[1]);
}

TEST_CASE("nothing is allocated between the fork of a rank and the start of its program" * doctest::skip(sanitized)) {
  for (std::string const options : {"-n 2 --prefix", "--elastic 1:2"}) {
    command c("env LD_PRELOAD=" TUTTI_NO_ALLOCATION " " + run + options +
              " sh -c 'unset LD_PRELOAD; echo rank $TUTTI_RANK'");
    CHECK(c.wait() == 0);
    CAPTURE(c.output);
    CHECK(c.said("rank 0\n"));
    CHECK(c.said("rank 1\n"));
  }
}

TEST_CASE("a wrong command line is rejected with a message") {
  struct {
    char const* arguments;
    int code;
    char const* sentence;
  } const cases[] = {
      {"-n 0 true", 2, "-n: Value 0 not in range"},
      {"-n -3 true", 2, "-n"},
      {"-n four true", 2, "-n: Value four not in range"},
      {"true", 2, "-n is required"},
      {"-n 2", 2, "A program to start is required"},
      {"-n 2 --timeout 0 true", 2, "--timeout: 0 is not a number of seconds"},
      {"-n 2 --timeout 1e300 true", 2, "--timeout: 1e300 is not a number of seconds, such as 0.5, up to 1e9"},
      {"-n 2 --timeout nan true", 2, "--timeout: nan is not a number of seconds"},
      {"--elastic 3:2 true", 2, "3:2 is not a range of ranks, such as 2:8"},
      {"--elastic 0:2 true", 2, "0:2 is not a range of ranks"},
      {"--elastic 2 true", 2, "2 is not a range of ranks"},
      {"--elastic 2:4x true", 2, "2:4x is not a range of ranks"},
      {"--elastic 2:4294967298 true", 2, "2:4294967298 is not a range of ranks, such as 2:8, of 1024 at most"},
      {"--elastic 4294967298:4294967299 true", 2, "4294967298:4294967299 is not a range of ranks"},
      {"--elastic 2:1025 true", 2, "2:1025 is not a range of ranks"},
      {"-n 4294967298 true", 2, "-n: Value 4294967298 not in range"},
      {"--elastic 2:4 --max-restarts 4294967296 true", 2, "--max-restarts: Value 4294967296 not in range"},
      {"-n 2 --elastic 1:2 true", 2, "--elastic excludes -n"},
      {"-n 2 --max-restarts 3 true", 2, "--max-restarts requires --elastic"},
      {"--bogus", 2, "The following argument was not expected: --bogus"},
      {"--bogus -n 2 true", 2, "The following argument was not expected: --bogus"},
      {"-n 2 --bogus true", 2, "The following argument was not expected: --bogus"},
      {"-np 0 true", 2, "tutti-run: -n: Value 0 not in range"},
      {"-np0 true", 2, "-n: Value 0 not in range"},
      {"-n 2 /no/such/program", 127, "cannot start /no/such/program: No such file or directory"},
      {"-n 2 no-such-program", 127, "cannot start no-such-program: No such file or directory in PATH\n"},
      {"-n 2 ''", 2, "A program to start is required"},
      {"-n 2 /", 126, "cannot start /: Permission denied; it is a folder"},
      {"-n 2 /etc/passwd", 126, "cannot start /etc/passwd: Permission denied; make it executable: chmod +x /etc"}};
  for (auto const& one : cases) {
    command c(run + one.arguments);
    CAPTURE(one.arguments);
    CHECK(c.wait() == one.code);
    CAPTURE(c.output);
    CHECK(c.said(one.sentence));
  }
}

TEST_CASE("a program that is here but cannot be started is reported with the way out") {
  temporary_folder const at;
  std::string const file = at.path() / "hello";
  std::ofstream(file) << "#!/no/such/shell\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  command without("env -C " + at.path().string() + " " + run + "-n 2 hello");
  CHECK(without.wait() == 127);
  CHECK(without.said("No such file or directory in PATH; write ./hello for the one in this folder"));
  command broken(run + "-n 2 " + file);
  CHECK(broken.wait() == 127);
  CHECK(broken.said("the file exists, but not the interpreter that its first line names"));
}

TEST_CASE("a program on a file system that allows none is told from one that is not executable") {
  temporary_folder const at;
  std::string const in_a_namespace = "unshare --map-root-user --mount sh -c 'mount -t tmpfs -o noexec none " +
                                     at.path().string() + " || exit 77; cp /bin/true " + at.path().string();
  if (command(in_a_namespace + "' 2>&1").wait() != 0) {
    MESSAGE("skipped: file systems may not be mounted here");
    return;
  }
  command c(in_a_namespace + "; exec " + run + "-n 2 " + (at.path() / "true").string() + "'");
  CHECK(c.wait() == 126);
  CAPTURE(c.output);
  CHECK(c.said("Permission denied; its file system is mounted with noexec"));
  CHECK_FALSE(c.said("chmod"));
}

TEST_CASE("output that a full disk does not take is reported, and the exit code is not 0") {
  for (std::string const arguments : {"-n 2 --prefix echo hello", "--help"}) {
    CAPTURE(arguments);
    command c("sh -c '" + run + arguments + " >/dev/full'");
    CHECK(c.wait() == 1);
    CHECK(c.said("tutti-run: cannot write the output"));
    CHECK(c.said("No space left on device"));
  }
  command failed("sh -c '" + run + R"(-n 2 --prefix sh -c "echo hello; exit 7" >/dev/full')");
  CHECK(failed.wait() == 7);
}

TEST_CASE("the version is that of the library, -np is -n, and numbers are decimal") {
  command version(run + "--version");
  CHECK(version.wait() == 0);
  CHECK(version.output == tutti::detail::join({"tutti-run ", TUTTI_VERSION_MAJOR, ".", TUTTI_VERSION_MINOR, ".",
                                               TUTTI_VERSION_PATCH, "\n"}));
  for (std::string const arguments : {"-np 2 ", "--prefix -np 2 ", "--timeout 50 -np 2 "}) {
    CAPTURE(arguments);
    command c(run + arguments + "sh -c 'echo $TUTTI_SIZE'");
    CHECK(c.wait() == 0);
    CHECK(lines_with(c.output, "2") == 2);
  }
  for (std::string const arguments : {"-n 09 ", "-np 009 ", "-n09 "}) {
    CAPTURE(arguments);
    command c(run + arguments + "printenv TUTTI_SIZE");
    CHECK(c.wait() == 0);
    CHECK(lines_with(c.output, "9\n") == 9);
  }
  command ten(run + "-n 010 printenv TUTTI_SIZE");
  CHECK(ten.wait() == 0);
  CHECK(lines_with(ten.output, "10\n") == 10);
  command other(run + "-n 1 echo -np 3");
  CHECK(other.wait() == 0);
  CHECK(other.output == "-np 3\n");
}

TEST_CASE("options after the program are passed to the program") {
  command c(run + "-n 1 printf '%s ' -n 5 --prefix --timeout");
  CHECK(c.wait() == 0);
  CHECK(c.output == "-n 5 --prefix --timeout ");
}

TEST_CASE("prefixed lines are whole, and an incomplete last line is not lost") {
  command c(run +
            "-n 3 --prefix sh -c 'i=0; while [ $i -lt 200 ]; do printf abc; echo def; i=$((i+1)); done; printf rest'");
  CHECK(c.wait() == 0);
  for (std::string const r : {"[0] ", "[1] ", "[2] "}) {
    CHECK(lines_with(c.output, r + "abcdef\n") == 200);
    CHECK(lines_with(c.output, r + "rest\n") == 1);
  }
  CHECK(c.output.size() == 3 * (200 * 11 + 9));
}

TEST_CASE("a line without end is broken, not kept in memory") {
  command c(run + "-n 1 --prefix sh -c 'head -c 5000000 /dev/zero | tr \"\\0\" x'");
  CHECK(c.wait() == 0);
  CHECK(lines_with(c.output, "x") == 5000000);
  CHECK(lines_with(c.output, "[0] x") == 5);
}

TEST_CASE("ranks are supervised while nobody reads their output, and none of it is lost") {
  temporary_folder const at;
  std::filesystem::path const folder = at.path(), ready = folder / "ready", errors = folder / "errors",
                              finished = folder / "finished";
  command c(run +
            "--enable-recovery -n 2 --prefix sh -c 'if [ $TUTTI_RANK = 0 ]; then trap \"\" USR1; seq 300000; touch " +
            finished.string() + "; exit; fi; trap \"exit 5\" USR1; touch " + ready.string() +
            "; while :; do sleep 0.05; done' 2>" + errors.string());
  CHECK(appears(ready, ""));
  std::this_thread::sleep_for(1s);  // all pipes are full by then
  c.signal(SIGUSR1);
  CHECK(appears(errors, "tutti-run: rank 1 ended with exit code 5\n"));
  CHECK(!std::filesystem::exists(finished));  // not all of its 2 MB are kept in memory
  CHECK(c.wait() == 0);
  CHECK(std::filesystem::exists(finished));
  std::string all;
  for (int i = 1; i <= 300000; ++i) all += tutti::detail::join({"[0] ", i, "\n"});
  CHECK((c.output == all));
}

TEST_CASE("a rank that writes without end does not keep the launcher from its other work") {
  command c(run + "-n 1 --prefix --timeout 2 yes >/dev/null");
  CHECK(c.wait() == 124);
  CHECK(c.said("the job did not finish within 2 s\n"));
}

TEST_CASE("output that is a non-blocking pipe is complete") {
  // The launcher shares its end of the pipe with a program that makes it so.
  command c("sh -c 'perl -e \"use Fcntl; fcntl(STDOUT, F_SETFL, O_NONBLOCK)\"; " + run +
            "-n 1 --prefix seq 50000' | sh -c 'sleep 1; cat'");
  CHECK(c.wait() == 0);
  CHECK(lines_with(c.output, "[0] ") == 50000);
}

TEST_CASE("standard files that are closed are empty, and no files of the launcher") {
  command c("sh -c '" + run + "-n 1 readlink /proc/self/fd/0 <&-'");
  CHECK(c.wait() == 0);
  CHECK(c.output == "/dev/null\n");
}

TEST_CASE("a signal ends a launcher whose ranks have ended, and whose output nobody reads") {
  temporary_folder const at;
  std::filesystem::path const errors = std::filesystem::path(at.path()) / "errors";
  command c(run + "-n 1 --prefix sh -c 'seq 50000; exit 3' 2>" + errors.string());
  CHECK(appears(errors, "tutti-run: rank 0 ended with exit code 3\n"));
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
}

TEST_CASE("standard error has the prefix too, and stays standard error") {
  command c("sh -c '" + run + "-n 2 --prefix sh -c \"echo wrong >&2\" 2>/dev/null'");
  CHECK(c.wait() == 0);
  CHECK(c.output.empty());
  command d(run + "-n 2 --prefix sh -c 'echo wrong >&2'");
  CHECK(d.wait() == 0);
  CHECK(d.said("[0] wrong\n"));
  CHECK(d.said("[1] wrong\n"));
}

TEST_CASE("only rank 0 reads the standard input") {
  command c("sh -c 'echo input | " + run + "-n 3 --prefix cat'");
  CHECK(c.wait() == 0);
  CHECK(c.output == "[0] input\n");
}

TEST_CASE("the first failure is reported and determines the exit code") {
  temporary_folder const at;
  command c(one_after_the_other(at.path(), 7, "exit 9"));
  CHECK(c.wait() == 7);
  CHECK(c.output == "tutti-run: rank 1 ended with exit code 7\n");
}

TEST_CASE("a job whose ranks find that they made different calls when they close their communicators fails") {
  command c(run + "-n 2 " + TUTTI_RANKS + " roots 0");
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(c.said("tutti: ranks disagree in call #1"));
  CHECK(c.said("tutti-run: the job failed, although every rank has exit code 0"));
}

TEST_CASE("a killed rank is named, and the others are terminated after a grace period") {
  stopwatch time;
  command c(run + "-n 3 sh -c 'if [ $TUTTI_RANK = 2 ]; then kill -9 $$; else sleep 60; fi'");
  CHECK(c.wait() == 128 + SIGKILL);
  CHECK(time.seconds() < 50);
  CHECK(c.said("tutti-run: rank 2 was killed by signal 9 (Killed)\n"));
  CHECK(c.said("terminating the ranks that are still running: 0, 1\n"));
}

TEST_CASE("the other ranks have time to report their own errors") {
  temporary_folder const at;
  command c(one_after_the_other(at.path(), 5, "echo the rank before me is gone; exit 6"));
  CHECK(c.wait() == 5);
  CHECK(c.said("the rank before me is gone\n"));
  CHECK_FALSE(c.said("terminating"));
}

TEST_CASE("ranks that have shrunk their communicator go on, and the exit code is theirs") {
  std::string const survive = run + "-n 3 " + TUTTI_RANKS + " survive 1";
  for (auto const& [variables, code] :
       {std::pair{"env SECONDS_AFTER_SHRINK=5 ", 0}, std::pair{"env CODE_OF_SURVIVORS=5 ", 5}}) {
    command c(variables + survive);
    CHECK(c.wait() == code);
    CAPTURE(c.output);
    CHECK(c.said("tutti-run: rank 1 was killed by signal 9 (Killed)\n"));
    CHECK(c.said("rank 0 of 2: right\n"));
    CHECK(c.said("rank 1 of 2: right\n"));
    CHECK_FALSE(c.said("terminating"));
  }
}

TEST_CASE("a rank that hangs and is excluded is ended when the others have, and its end is no failure") {
  command c("env VICTIM_HANGS=1 " + run + "-n 3 " + TUTTI_RANKS + " survive 1");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: the other ranks have excluded rank 1\n"));
  CHECK(lines_with(c.output, " of 2: right\n") == 2);
}

TEST_CASE("survivors that have ended before tutti-run hears of them count as well") {
  // Rank 2 stops tutti-run until all ranks have ended and are zombies.
  std::string const continues =
      "until [ $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c \") Z $PPID \") = 3 ]; do sleep 0.1; "
      "done; kill -CONT $PPID";
  std::string const survive = run + "--prefix -n 3 sh -c 'if [ $TUTTI_RANK = 2 ]; then kill -STOP $PPID; (" +
                              continues + ") & fi; exec " + TUTTI_RANKS + " survive 1'";
  for (auto const& [variables, code] : {std::pair{"env ", 0}, std::pair{"env CODE_OF_SURVIVORS=5 ", 5}}) {
    command c(variables + survive);
    CHECK(c.wait() == code);
    CAPTURE(c.output);
    CHECK(c.said("tutti-run: rank 1 was killed by signal 9 (Killed)\n"));
    CHECK(c.said("tutti-run: the ranks that were left went on, and have ended\n"));
    CHECK_FALSE(c.said("go on: \n"));
  }
}

TEST_CASE("with --enable-recovery no rank is ended because of another") {
  command c(run + "--enable-recovery -n 3 sh -c 'case $TUTTI_RANK in 0) kill -9 $$;; 1) exit 4;; 2) sleep 5; esac'");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: rank 0 was killed by signal 9 (Killed)\n"));
  CHECK(c.said("tutti-run: rank 1 ended with exit code 4\n"));
  CHECK_FALSE(c.said("terminating"));
  temporary_folder const at;
  command all(run + "--enable-recovery " + one_after_the_other(at.path(), 6, "exit 7").substr(run.size()));
  CHECK(all.wait() == 6);
}

TEST_CASE("with --enable-recovery a job that had to be ended has failed, although a rank succeeded") {
  std::string const one_stays = "--enable-recovery -n 2 sh -c '[ $TUTTI_RANK = 0 ] && echo done || exec sleep 60'";
  command late(run + "--timeout 1 " + one_stays);
  CHECK(late.wait() == 124);
  command ended(run + one_stays);
  ended.read_until("done");
  ended.signal(SIGTERM);
  CHECK(ended.wait() == 128 + SIGTERM);
}

TEST_CASE("a signal that whoever starts the job ignores does not end it") {
  command c(
      "sh -c 'trap \"\" HUP; exec " + run +
      "--elastic 1:2 sh -c \"echo started; [ \\$TUTTI_RANK = 0 ] && sleep 2 || { sleep 0.5; kill -9 \\$\\$; }\"'");
  c.read_until("started\nstarted");
  c.signal(SIGHUP);
  c.wait();
  CAPTURE(c.output);
  CHECK(lines_with(c.output, "started\n") > 2);  // the lost rank was started again
}

TEST_CASE("ends of ranks are noticed, although whoever starts the job ignores SIGCHLD") {
  command c("timeout 50 env --ignore-signal=CHLD " + run + "-n 2 sh -c 'exit $((3 + TUTTI_RANK))'");
  int const code = c.wait();
  CAPTURE(c.output);
  CHECK((code == 3 || code == 4));
}

TEST_CASE("a job that Ctrl-C has ended ends the script that started it") {
  command c("setsid bash -c 'for turn in 1 2; do echo turn $turn; " + run +
            "-n 2 --prefix sh -c \"echo ready; exec sleep 60\"; done'");
  for (char const* const ready : {"[0] ready", "[1] ready"}) c.read_until(ready);
  ::kill(-c.process(), SIGINT);  // as a terminal does
  CHECK(c.wait() == 128 + SIGINT);
  CHECK(!c.said("turn 2"));
}

TEST_CASE("--prefix raises the limit of open files, of its own only") {
  command c("sh -c 'ulimit -Sn 64; exec " + run + "-n 60 --prefix sh -c \"ulimit -Sn\"'");
  CHECK(c.wait() == 0);
  CHECK(lines_with(c.output, "] 64\n") == 60);
  command none("sh -c 'ulimit -n 64; exec " + run + "-n 60 --prefix true'");
  CHECK(none.wait() == 1);
  CHECK(none.said("Too many open files; raise the limit of open files (ulimit -n), of which --prefix needs two"));
}

TEST_CASE("output that cannot be written is reported at once") {
  command c("sh -c 'exec " + run + "-n 1 --prefix sh -c \"echo hello; exec sleep 60\" >/dev/full'");
  c.read_until("loses some of it: No space left on device");
  CHECK(c.said("tutti-run: cannot write the output of the ranks, and loses some of it"));
}

TEST_CASE("ranks that ignore SIGTERM are killed") {
  stopwatch time;
  command c(run + "-n 2 --timeout 3 sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'");
  CHECK(c.wait() == 124);
  CHECK(time.seconds() > 8);
  CHECK(c.said("the job did not finish within 3 s\n"));
  CHECK(c.said("killing the ranks that are still running: 0, 1\n"));
}

TEST_CASE("signals reach every rank") {
  for (int const number : {SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM}) {
    CAPTURE(number);
    command c(run +
              "-n 2 --prefix sh -c 'trap \"echo heard; exit 0\" USR1 USR2 HUP INT TERM; echo ready; while :; do sleep "
              "0.05; done'");
    c.read_until("[0] ready");
    c.read_until("[1] ready");
    c.signal(number);
    CHECK(c.wait() == 0);
    CHECK(c.said("[0] heard\n"));
    CHECK(c.said("[1] heard\n"));
  }
  command c(run + "-n 2 --prefix sh -c 'echo ready; exec sleep 60'");
  c.read_until("[0] ready");
  c.read_until("[1] ready");
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
}

TEST_CASE("ranks that are stopped end, too") {
  for (int const number : {SIGHUP, SIGINT, SIGTERM}) {
    CAPTURE(number);
    temporary_folder const at;
    std::string const file = at.path() / "process.";
    command c(run + "-n 2 sh -c 'echo $$ >" + file + "$TUTTI_RANK; kill -STOP $$; echo went on'");
    for (std::string const rank : {"0", "1"}) {
      REQUIRE(appears(file + rank, "\n"));
      std::string process;
      std::ifstream(file + rank) >> process;
      REQUIRE(appears("/proc/" + process + "/status", "State:\tT"));
    }
    c.signal(number);
    CHECK(c.wait() == 128 + number);
    CHECK(!c.said("went on"));
  }
}

TEST_CASE("a launcher without room for its threads says so" * doctest::skip(sanitized)) {
  command c("sh -c 'ulimit -v 10000; exec " + run + "-n 1 true'");
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: cannot start a thread, which writes output: "));
  CHECK(c.said("; raise the limit of processes (ulimit -u) or of memory (ulimit -v)\n"));
}

TEST_CASE("no process is left behind") {
  // The sleepers hold the pipe that the command reads, so wait() returns when the last of them is gone.
  SUBCASE("by a job that ends") {
    stopwatch time;
    command c(run + "-n 2 sh -c 'setsid sleep 61 & sleep 61 & exit 0'");
    CHECK(c.wait() == 0);
    CHECK(time.seconds() < 50);
  }
  SUBCASE("by a job that ends, although one traces another") {
    stopwatch time;
    command c(run + "-n 1 " + TUTTI_RANKS + " leave_traced");
    CHECK(c.wait() == 0);
    CHECK(time.seconds() < 50);
  }
  SUBCASE("by a launcher that is killed") {
    stopwatch time;
    command c(run + "-n 2 sh -c 'echo ready; exec sleep 61'");
    c.read_until("ready\nready\n");
    c.signal(SIGKILL);
    CHECK(c.wait() == 128 + SIGKILL);
    CHECK(time.seconds() < 50);
  }
}

TEST_CASE("processes that the launcher has not started are not ended with the job") {
  temporary_folder const at;
  std::string const file = at.path() / "process";
  command c("sh -c 'sleep 61 >/dev/null 2>&1 & echo $! >" + file + "; exec " + run +
            "-n 2 sh -c \"sleep 61 & exit 0\"'");
  stopwatch time;
  CHECK(c.wait() == 0);
  CHECK(time.seconds() < 50);
  pid_t process = 0;
  std::ifstream(file) >> process;
  REQUIRE(process > 0);
  CHECK(::kill(process, SIGKILL) == 0);
}

TEST_CASE("if nobody reads the lines any more, ranks end as without the launcher, and no process is left behind") {
  temporary_folder const at;
  std::string const file = at.path() / "process";
  command c("sh -c '{ " + run + R"(--prefix -n 2 sh -c "sleep 1000 & echo \$! >)" + file +
            R"(.\$TUTTI_RANK; yes"; echo "code $?" >&2; } | head -n 1')");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("ended with exit code 141"));
  CHECK(c.said("code 141"));
  for (std::string const rank : {"0", "1"}) {
    pid_t process = 0;
    std::ifstream(file + "." + rank) >> process;
    CHECK(process > 0);
    bool const gone = process > 0 && ::kill(process, 0) != 0;
    CHECK(gone);
    if (process > 0 && !gone) ::kill(process, SIGKILL);
  }
}

TEST_CASE("of errors that nobody catches, one is printed in full") {
  command c(run + "-n 8 " TUTTI_RANKS " uncaught");
  CHECK(c.wait() == 134);  // SIGABRT
  CAPTURE(c.output);
  CHECK(lines_with(c.output, "tutti: root 17 is not a rank") == 1);
  CHECK(lines_with(c.output, " ends too (rank lost, because of rank 2); see the error of rank 2\n") == 7);
  CHECK(!c.said("terminate called"));
}

TEST_CASE("a variable that all ranks cannot read is printed in full once") {
  for (std::string const variable :
       {"LOG", "CHECK", "TIMEOUT", "STATISTICS", "ALGORITHM", "MEET", "NATIVE", "NVLS", "TOPOLOGY", "RECORD_SIGNAL"}) {
    CAPTURE(variable);
    command c("env TUTTI_" + variable + "=rong " + run + "-n 4 " TUTTI_RANKS " uncaught");
    CHECK(c.wait() == 134);  // SIGABRT
    CAPTURE(c.output);
    CHECK(lines_with(c.output, "tutti: TUTTI_" + variable) == 1);
    CHECK(lines_with(c.output, " ends too (bad argument); see the error of rank ") == 3);
  }
}

TEST_CASE("a job that a rank aborts ends with the code of that rank, whose reason is printed once") {
  for (int i = 0; i < 10; ++i) {
    command c(run + "-n 4 " TUTTI_RANKS " abort");
    CHECK(c.wait() == 7);
    CAPTURE(c.output);
    CHECK(lines_with(c.output, "tutti: rank 1 has aborted the job: the disk is full") == 1);
    CHECK(lines_with(c.output, " ends too (revoked, because of rank 1); see the error of rank 1\n") == 3);
  }
}

TEST_CASE("different errors that nobody catches are all printed in full") {
  command c(run + "-n 4 " TUTTI_RANKS " uncaught_differently");
  CHECK(c.wait() == 134);  // SIGABRT
  CAPTURE(c.output);
  for (int r = 0; r < 4; ++r) CHECK(lines_with(c.output, "tutti: file " + std::to_string(r) + " cannot be read") == 1);
}
