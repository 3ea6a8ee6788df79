// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run_local and run_threads: ranks without a launcher, as processes or threads of this program.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tutti/algorithm/concept.hpp"
#include "tutti/collective/communicator.hpp"
#include "tutti/transport/loopback.hpp"
#include "tutti/transport/shm.hpp"

namespace tutti {
namespace detail {

inline void expect_ranks(int ranks) {
  if (ranks < 1 || ranks > max_ranks)
    throw error({.code = error_code::bad_argument, .what = std::to_string(ranks) + " ranks were asked for",
                 .way_out = "ask for 1 to " + std::to_string(max_ranks)});
}

// A rank that was forked, as its parent sees it.
struct child {
  pid_t process = -1;
  descriptor ended;   // readable when it has ended
  descriptor report;  // what its exception said
  bool running = true;
};

// In the child: runs the rank and ends the process, past the parent's exit handlers.
template <class F>
[[noreturn]] void be_rank(descriptor const& file, int rank, int ranks, pid_t parent, int report, F& f) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it was gone before that
  int code = 0;
  auto const tell = [&](char const* text) {
    code = 1;
    if (::write(report, text, std::strlen(text)) < 0) code = 2;
  };
  try {
    auto const until = deadline::after(settings::from_environment().timeout);
    communicator<shm> comm(ranks == 1 ? std::make_unique<shm>() : std::make_unique<shm>(file, rank, ranks, max_tracks, until));
    f(comm);
  } catch (std::exception const& e) {
    tell(e.what());
  } catch (...) {
    tell("an exception that is no std::exception");
  }
  std::fflush(nullptr);
  ::_exit(code);
}

inline std::string how_it_ended(int rank, int status, std::string const& said) {
  std::string out = "rank " + std::to_string(rank);
  if (WIFSIGNALED(status)) out += " was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  else out += " ended with exit code " + std::to_string(WEXITSTATUS(status));
  return said.empty() ? out : out + ", " + said;
}

inline std::string read_all(int file) {
  std::string out;
  char part[512];
  for (ssize_t n; (n = ::read(file, part, sizeof part)) > 0;) out.append(part, static_cast<std::size_t>(n));
  return out;
}

}  // namespace detail

// Calls f(comm) in `ranks` processes that are forked for it, over shared memory, and returns when all have ended. What a
// rank changes in memory of its own is lost with it. Call it while this process has one thread.
// Throws error: rank_lost if a rank threw, was killed or exited with a code other than 0; the message has what each such
// rank said, in the order of their ends. Ranks that go on for 10 s after that are killed.
//
//   tutti::run_local(4, [](auto& comm) { tutti::barrier(comm); });
template <class F>
void run_local(int ranks, F&& f) {
  detail::expect_ranks(ranks);
  descriptor const file = ranks == 1 ? descriptor() : shm::create(ranks, max_tracks);
  std::vector<detail::child> children(static_cast<std::size_t>(ranks));
  std::fflush(nullptr);  // or every child would print it again
  pid_t const parent = ::getpid();
  std::string failures;
  int first_failure = -1;
  auto const kill_all = [&] {
    for (detail::child const& c : children)
      if (c.running && c.process > 0) ::kill(c.process, SIGKILL);
  };

  for (int r = 0; r < ranks; ++r) {
    detail::child& c = children[static_cast<std::size_t>(r)];
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_system("cannot make a pipe", "raise the limit of open files (ulimit -n)");
    descriptor const writing(ends[1]);
    c.report = descriptor(ends[0]);
    c.process = ::fork();
    if (c.process == 0) detail::be_rank(file, r, ranks, parent, writing.get(), f);
    if (c.process < 0) {
      int const code = errno;
      kill_all();
      throw_system("cannot fork rank " + std::to_string(r), "raise the limit of processes (ulimit -u)", code);
    }
    c.ended = descriptor(static_cast<int>(::syscall(SYS_pidfd_open, c.process, 0)));
  }

  deadline patience_left = deadline::after(std::chrono::hours(24 * 365));
  for (int running = ranks; running > 0;) {
    std::vector<pollfd> waiting;
    for (detail::child const& c : children) waiting.push_back({c.running ? c.ended.get() : -1, POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 100);
    if (patience_left.passed()) kill_all();
    for (int r = 0; r < ranks; ++r) {
      detail::child& c = children[static_cast<std::size_t>(r)];
      int status = 0;
      if (!c.running || ::waitpid(c.process, &status, WNOHANG) != c.process) continue;
      c.running = false;
      --running;
      if (status == 0) continue;
      if (first_failure < 0) first_failure = r, patience_left = deadline::after(std::chrono::seconds(10));
      failures += (failures.empty() ? "" : "\n  ") + detail::how_it_ended(r, status, detail::read_all(c.report.get()));
    }
  }
  if (first_failure >= 0)
    throw error({.code = error_code::rank_lost, .peer = first_failure, .what = failures, .way_out = "the first of them is the cause"});
}

// Calls f(comm) in `ranks` threads, over loopback, and returns when all have ended. Rethrows the first exception of a
// rank; the others then end by an error too (rank_left) where they need that rank.
//
//   tutti::run_threads(4, [](auto& comm) { tutti::barrier(comm); });
template <class F>
void run_threads(int ranks, F&& f) {
  detail::expect_ranks(ranks);
  auto const shared = std::make_shared<loopback::hub>(ranks, max_tracks);
  std::exception_ptr first;
  std::mutex guard;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        try {
          communicator<loopback> comm(std::make_unique<loopback>(shared, r));
          try {
            f(comm);
          } catch (...) {  // before its communicator closes and makes others throw
            std::scoped_lock const lock(guard);
            if (!first) first = std::current_exception();
          }
        } catch (...) {
          std::scoped_lock const lock(guard);
          if (!first) first = std::current_exception();
        }
      });
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti
