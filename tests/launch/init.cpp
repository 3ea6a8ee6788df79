// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// init: programs that tutti-run starts find their ranks, and say so when they cannot.
// labels: processes waits
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "launch/command.hpp"
#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti::testing;

namespace {

std::string ranks(int n, std::string const& task) {
  return TUTTI_RUN " -n " + std::to_string(n) + " " TUTTI_RANKS " " + task;
}
std::string with_timeout(int seconds, std::string const& line) {
  return "env TUTTI_TIMEOUT=" + std::to_string(seconds) + " " + line;
}

}  // namespace

TEST_CASE("without a launcher there is one rank") {
  auto comm = tutti::init();
  CHECK(comm.size() == 1);
  CHECK(comm.rank() == 0);
}

TEST_CASE("ranks of a job find each other") {
  for (int const n : ranks_to_test({1, 2, 5, 16})) {
    CAPTURE(n);
    command c(with_timeout(30, ranks(n, "sum")));
    CHECK(c.wait() == 0);
    CAPTURE(c.output);
    for (int r = 0; r < n; ++r) CHECK(c.said("rank " + std::to_string(r) + " of " + std::to_string(n) + ": right\n"));
  }
}

TEST_CASE("init may be called again") {
  command c(with_timeout(30, ranks(3, "twice")));
  CHECK(c.wait() == 0);
  CHECK(lines_with(c.output, ": right\n") == 3);
}

TEST_CASE("ranks that came in vain may try again") {
  for (int const late : {0, 2}) {
    command c(with_timeout(2, ranks(3, "again " + std::to_string(late))));
    CHECK(c.wait() == 0);
    CAPTURE(c.output);
    CHECK(lines_with(c.output, ": right\n") == 3);
  }
}

TEST_CASE("a mismatch that init finds names the line that called it") {
  std::string const job = "twins-" + std::to_string(::getpid());
  std::vector<pid_t> processes;
  for (int const rank : {0, 1, 1})
    processes.push_back(fork_rank(job, rank, 3, "20", [&] {
      tutti::error const e = error_of([] { static_cast<void>(tutti::init()); });
      expect(e.code() == tutti::error_code::mismatch || e.code() == tutti::error_code::rank_lost, e.what());
      expect(std::string(e.where().file_name()).ends_with("init.cpp"), e.what());
      if (rank == 0) expect_error(e, tutti::error_code::mismatch, "a process joined as rank 1 of 3, which is taken");
    }));
  CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
}

TEST_CASE("a mismatch of a rank that comes late names the line that called init, at each rank") {
  std::string const job = "late-" + std::to_string(::getpid());
  std::vector<pid_t> processes;
  for (bool const late : {false, false, true}) {
    int const rank = processes.empty() ? 0 : 1;
    processes.push_back(fork_rank(job, rank, 3, "20", [&] {
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the others wait within init
      int const line = __LINE__ + 1;
      tutti::error const e = error_of([] { static_cast<void>(tutti::init()); });
      if (late) expect(e.code() == tutti::error_code::mismatch || e.code() == tutti::error_code::rank_lost, e.what());
      else expect_error(e, tutti::error_code::mismatch, "a process joined as rank 1 of 3, which is taken");
      expect(std::string(e.where().file_name()).ends_with("init.cpp"), e.what());
      expect(static_cast<int>(e.where().line()) == line, e.what());
    }));
  }
  CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
}

TEST_CASE("two jobs at once do not mix") {
  command a(with_timeout(30, ranks(3, "sum 1"))), b(with_timeout(30, ranks(3, "sum 1000")));
  CHECK(a.wait() == 0);
  CHECK(b.wait() == 0);
}

// Containers on the network of their host may be equal in the name of the host and the number of mpirun's process.
TEST_CASE("two jobs of Open MPI that have the same name do not mix") {
  std::vector<pid_t> processes;
  for (int const job : {1, 2})
    for (int const rank : {0, 1})
      processes.push_back(fork_rank("", rank, 2, "30", [&] {
        environment const others{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"PMIX_NAMESPACE", "prterun-host-" + std::to_string(::getppid()) + "@1"},
                                 {"PMIX_SERVER_URI2", "tcp4://127.0.0.1:" + std::to_string(job)}};
        ::unsetenv("TUTTI_RANK"), ::unsetenv("TUTTI_SIZE");
        auto comm = tutti::init();
        std::vector<int> sum(10, job);
        tutti::all_reduce(comm, sum);
        expect(sum[9] == 2 * job, "a rank of the other job takes part");
      }));
  CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
}

TEST_CASE(
    "of two jobs that a user gives the same name, the first runs, and the ranks of the other say why they do not") {
  std::string const job = "namesakes-" + std::to_string(::getpid());
  std::vector<pid_t> processes;
  shared_with_forks<int> shared;
  std::atomic_ref<int> const joined(shared[0]);
  for (bool const second : {false, true})
    for (int const rank : {0, 1})
      processes.push_back(fork_rank(job, rank, 2, "2", [&] {
        while (second && joined < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (second) {
          tutti::error const e = error_of([] { static_cast<void>(tutti::init()); });
          if (rank == 0) expect_error(e, tutti::error_code::mismatch, "another TUTTI_JOB");
          else expect(e.code() != tutti::error_code::system, e.what());
          ++joined;
        } else {
          auto comm = tutti::init();
          ++joined;
          while (joined < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          tutti::barrier(comm);
        }
      }));
  CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
  CHECK(joined == 4);
}

// Which of the two has the name when a rank comes depends on the time, and so does whose rank 1 meets rank 0.
TEST_CASE("of two jobs that start at once under the same name, at most two ranks meet, and the others are told why") {
  std::string const job = "simultaneous-" + std::to_string(::getpid());
  std::vector<pid_t> processes;
  shared_with_forks<int> joined(2);
  for (int const rank : {0, 1, 0, 1})
    processes.push_back(fork_rank(job, rank, 2, "2", [&] {
      try {
        auto comm = tutti::init();
        std::atomic_ref(joined[static_cast<std::size_t>(rank)]).fetch_add(1);
        std::this_thread::sleep_for(std::chrono::seconds(4));  // beyond the time of the others
        tutti::barrier(comm);
      } catch (tutti::error const& e) {
        if (rank == 0) expect_error(e, tutti::error_code::mismatch, "another TUTTI_JOB");
        else
          expect(e.code() == tutti::error_code::timeout || e.code() == tutti::error_code::rank_lost ||
                     (e.code() == tutti::error_code::mismatch &&
                      std::string_view(e.what()).find("another TUTTI_JOB") != std::string_view::npos),
                 e.what());
      }
    }));
  CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
  CHECK(joined[0] == joined[1]);
  CHECK(joined[0] <= 1);
}

// Such a child would be in the way of torchrun, which starts a job again under the same name.
TEST_CASE("a process that rank 0 has forked does not keep the job's name") {
  std::string const job = "again-" + std::to_string(::getpid());
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  for (bool const first : {true, false}) {
    std::vector<pid_t> processes;
    for (int const rank : {0, 1})
      processes.push_back(fork_rank(job, rank, 2, "20", [&] {
        auto comm = tutti::init();
        tutti::barrier(comm);
        if (!first || rank != 0 || ::fork() != 0) return;
        ::close(ends[1]);
        char none = 0;
        [[maybe_unused]] auto const ended = ::read(ends[0], &none, 1);  // returns at the end of the test
      }));
    CHECK(end_of_ranks(processes, std::chrono::seconds(60), [](int, int status) { return status == 0; }) == "");
  }
  ::close(ends[0]), ::close(ends[1]);
}

TEST_CASE("a rank that does not come is named by all others") {
  for (int const missing : {0, 2}) {
    stopwatch time;
    command c(with_timeout(5, ranks(4, "absent " + std::to_string(missing))));
    CHECK(c.wait() == 1);
    CAPTURE(c.output);
    CHECK(lines_with(c.output, missing == 0 ? "rank 0 did not open the meeting point of this job"
                                            : "timed out waiting for rank 2 to join") == 3);
    CHECK(lines_with(c.output, "ranks.cpp:") == 3);  // where they called init
    CHECK(time.seconds() < 50);
  }
}

TEST_CASE("a rank that ends before it comes is told by the launcher, and the job is over") {
  command c(with_timeout(60, ranks(3, "end-early 1")));
  stopwatch time;
  CHECK(c.wait() == 9);
  CHECK(c.said("tutti-run: rank 1 ended with exit code 9"));
  CHECK(time.seconds() < 50);
}

TEST_CASE("a rank that is killed is named by the launcher and by all others") {
  stopwatch time;
  command c(with_timeout(60, ranks(4, "killed 2")));
  CHECK(c.wait() == 128 + 9);
  CAPTURE(c.output);
  CHECK(c.said("tutti-run: rank 2 was killed by signal 9"));
  CHECK(lines_with(c.output, "tutti: rank 2 (process ") == 3);
  CHECK(time.seconds() < 50);
}

TEST_CASE("a process that a rank forks does not speak for the rank") {
  command c(with_timeout(10, ranks(3, "forks")));
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
}

TEST_CASE("a limit of file sizes gives an error, not a signal") {
  command c("sh -c 'ulimit -f 1000; exec " + with_timeout(10, ranks(2, "sum")) + "'");
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(lines_with(c.output, "raise the limit of file sizes (ulimit -f)") == 2);
}
