// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The watchdog ends a process that stays in a call, and no other.
// labels: processes waits
#include "tutti/transport/system/call_watchdog.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "support/environment.hpp"
#include "tutti/core/error.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace std::chrono_literals;

namespace {

int error_pipe = -1;  // of a watched process

// A process that does something with watched calls. Its error, if the watchdog ends it, goes through a pipe.
class watched_process {
 public:
  template <class Body>
  explicit watched_process(Body const& body) {
    REQUIRE(::pipe(pipe_.data()) == 0);
    number_ = ::fork();
    REQUIRE(number_ >= 0);
    if (number_ != 0) {
      ::close(pipe_[1]);
      return;
    }
    error_pipe = pipe_[1];
    std::set_terminate([] {
      try {
        std::rethrow_exception(std::current_exception());
      } catch (error const& e) {
        [[maybe_unused]] auto const written = ::write(error_pipe, e.what(), std::string(e.what()).size());
      }
      ::_exit(17);
    });
    watched_calls calls;
    body(calls);
    ::_exit(0);
  }
  watched_process(watched_process const&) = delete;
  watched_process& operator=(watched_process const&) = delete;

  pid_t number() const { return number_; }
  // The error by which it ended; empty if it came to its end.
  std::string error_text() {
    std::string out;
    std::array<char, 4096> text{};
    for (ssize_t n = 0; (n = ::read(pipe_[0], text.data(), text.size())) > 0;)
      out.append(text.data(), static_cast<std::size_t>(n));
    ::close(pipe_[0]);
    int status = 0;
    ::waitpid(number_, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == (out.empty() ? 0 : 17));
    return out;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t number_ = 0;
};

void stay(watched_calls& calls, std::chrono::milliseconds time) {
  call_note::scope const inside(calls.notes[0], "MPI_Test");
  std::this_thread::sleep_for(time);
}

process_watch watch_of_ended_process() {
  pid_t const peer = ::fork();
  if (peer == 0) ::_exit(0);
  process_watch watch;
  watch.begin(peer);
  ::waitpid(peer, nullptr, 0);
  return watch;
}

}  // namespace

TEST_CASE("a process that stays in a call beyond the limit ends, and says in which") {
  watched_process one([](watched_calls& calls) {
    calls.start(3, 200ms);
    stay(calls, 60s);
  });
  std::string const text = one.error_text();
  CHECK(text.find("rank 3 has been inside the MPI (MPI_Test) for 0.5 s") != text.npos);
  CHECK(text.find("raise TUTTI_TIMEOUT; ") != text.npos);
  CHECK(text.find("TUTTI_WATCHDOG=0") != text.npos);
}

TEST_CASE("what to do is said by whoever sets the limit, and a group says how ranks are numbered") {
  watched_process last([](watched_calls& calls) {
    calls.start(3, 200ms, call_watchdog::way_out_after_loss);
    stay(calls, 60s);
  });
  watched_process group([](watched_calls& calls) {
    calls.start(1, 200ms);
    calls.set_numbering("; ranks are numbered within the group {0, 2}");
    stay(calls, 60s);
  });
  std::string const text = last.error_text();
  CHECK(text.find("a rank of this job was lost") != text.npos);
  CHECK(text.find("OMPI_MCA_async_mpi_finalize=1") != text.npos);
  CHECK(text.find("TUTTI_TIMEOUT") == text.npos);
  CHECK(group.error_text().find("; ranks are numbered within the group {0, 2}") != std::string::npos);
}

TEST_CASE("what happened is recorded before the process ends, unless that takes long") {
  auto const record_for = [](std::chrono::milliseconds time) {
    return [time](watched_calls& calls) {
      calls.set_record([time](std::string const& why) {
        std::this_thread::sleep_for(time);
        [[maybe_unused]] auto const written = ::write(error_pipe, why.c_str(), why.size());
      });
      calls.start(3, 200ms);
      stay(calls, 60s);
    };
  };
  watched_process at_once(record_for(0s)), too_late(record_for(60s));
  auto const times_told = [](std::string const& text) {
    std::string const words = "rank 3 has been inside the MPI";
    auto const first = text.find(words);
    return first == text.npos ? 0 : text.find(words, first + 1) == text.npos ? 1 : 2;
  };
  CHECK(times_told(at_once.error_text()) == 2);
  CHECK(times_told(too_late.error_text()) == 1);
}

TEST_CASE("a process that makes many calls, or stays outside of them, does not") {
  watched_process one([](watched_calls& calls) {
    calls.start(0, 200ms);
    for (int i = 0; i < 1500; ++i) stay(calls, 1ms);
    std::this_thread::sleep_for(1500ms);
  });
  CHECK(one.error_text() == "");
}

TEST_CASE("a call that waits for a process that has ended is left to itself for two seconds") {
  watched_process hangs([](watched_calls& calls) {
    process_watch const watch = watch_of_ended_process();
    calls.start(0, 60s);
    calls.add_peer(5, watch);
    stay(calls, 60s);
  });
  watched_process returns([](watched_calls& calls) {
    process_watch const watch = watch_of_ended_process();
    calls.start(0, 60s);
    calls.add_peer(5, watch);
    stay(calls, 1s);
    std::this_thread::sleep_for(3s);
  });
  watched_process creates_group([](watched_calls& calls) {
    process_watch const watch = watch_of_ended_process();
    calls.add_peer(5, watch);
    calls.add_peer(6, watch);
    watched_calls creation;
    creation.start(0, 60s);
    creation.watch_as(calls, std::array{0, 7});
    stay(creation, 4s);
    creation.watch_as(calls, std::array{0, 6});
    stay(creation, 60s);
  });
  CHECK(creates_group.error_text().find("rank 6 ended while rank 0 was inside the MPI") != std::string::npos);
  CHECK(hangs.error_text().find("rank 5 ended while rank 0 was inside the MPI (MPI_Test)") != std::string::npos);
  CHECK(returns.error_text() == "");
}

TEST_CASE("time in which the process is stopped does not count") {
  watched_process one([](watched_calls& calls) {
    calls.start(0, 2s);
    call_note::scope const inside(calls.notes[0], "MPI_Test");
    ::raise(SIGSTOP);
  });
  ::waitpid(one.number(), nullptr, WUNTRACED);
  std::this_thread::sleep_for(3s);
  ::kill(one.number(), SIGCONT);
  CHECK(one.error_text() == "");
}

TEST_CASE("TUTTI_WATCHDOG=0 switches the watchdog off, and other words are refused") {
  watched_process off([](watched_calls& calls) {
    tutti::testing::environment const variable{{"TUTTI_WATCHDOG", "0"}};
    calls.start(0, 200ms);
    stay(calls, 1500ms);
  });
  CHECK(off.error_text() == "");
  tutti::testing::environment const variable{{"TUTTI_WATCHDOG", "no"}};
  watched_calls calls;
  CHECK_THROWS_WITH_AS(calls.start(0, 1s), doctest::Contains("TUTTI_WATCHDOG=\"no\" is not 0 or 1"), error);
}
