// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/local.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/algorithm/concept.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/stoppable_thread.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/local.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_ranks(int ranks) {
  if (ranks < 1 || ranks > max_ranks)
    throw error({.code = error_code::bad_argument,
                 .what = join({ranks, " ranks were asked for"}),
                 .way_out = join({"ask for 1 to ", max_ranks})});
}

// Restores SIGCHLD while ranks run: a program that ignores it would not learn how they ended.
class heard_children {
 public:
  heard_children() {
    ::sigaction(SIGCHLD, nullptr, &before_);
    if (before_.sa_handler != SIG_IGN && (before_.sa_flags & SA_NOCLDWAIT) == 0) return;
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    changed_ = ::sigaction(SIGCHLD, &plain, nullptr) == 0;
  }
  heard_children(heard_children const&) = delete;
  heard_children& operator=(heard_children const&) = delete;
  ~heard_children() {
    if (changed_) ::sigaction(SIGCHLD, &before_, nullptr);
  }

 private:
  struct sigaction before_{};
  bool changed_ = false;
};

// What the parent of forked ranks does. A template, like run_in_threads, so a program that calls neither compiles nothing of
// it.
template <class Transport>
struct forked_ranks {
  // Forked ranks, as seen by their parent. The destructor ends those that still run.
  struct children {
    struct child {
      pid_t process = -1;
      descriptor ended;   // readable when the process has ended
      descriptor report;  // carries the time and the message of a failure
      bool running = false;
    };
    std::vector<child> all;

    void kill() const noexcept {
      for (child const& c : all)
        if (c.running) ::kill(c.process, SIGKILL);
    }
    ~children() {
      kill();
      for (child const& c : all)
        while (c.running && ::waitpid(c.process, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
  };

  // How a rank failed.
  struct failure {
    std::int64_t time = 0;  // of the steady clock, which all processes share
    int rank = -1;
    std::string text;
    std::string said{};  // the message of its exception
  };

  [[gnu::cold]] static void run(int ranks, rank_function<Transport> f) {
    expect_ranks(ranks);
    descriptor const file = ranks == 1 ? descriptor() : Transport::create(ranks, all_tracks);
    heard_children const heard;
    survival_line const survival;
    children family;
    family.all.reserve(static_cast<std::size_t>(ranks));
    flush_output();  // or every child would print buffered text again
    pid_t const parent = ::getpid();

    for (int r = 0; r < ranks; ++r) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw_system("cannot make a pipe", "");
      descriptor reading(ends[0]), writing(ends[1]);
      ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
      pid_t const process = ::fork();
      if (process == 0) {
        for (auto& c : family.all) c = {};  // a child does not own its siblings
        reading = descriptor();
        survival.pass_on();
        be_rank(file, r, ranks, parent, writing.get(), f);
      }
      if (process < 0) throw_system(join({"cannot fork rank ", r}), "raise the limit of processes (ulimit -u)");
      descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
      family.all.push_back({process, std::move(ended), std::move(reading), true});
    }

    auto const now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    std::vector<failure> failures;
    bool impatient = false;
    deadline patience;
    std::int64_t last_look = now();
    for (int running = ranks; running > 0;) {
      std::vector<pollfd> waiting(family.all.size(), {-1, POLLIN, 0});
      for (std::size_t r = 0; r < family.all.size(); ++r)
        if (family.all[r].running) waiting[r].fd = family.all[r].ended.get();
      waiting.push_back({survival.handle(), POLLIN, 0});
      ::poll(waiting.data(), waiting.size(), 100);
      if (patience.passed()) family.kill();
      std::int64_t const this_look = now();
      for (int r = 0; r < ranks; ++r) {
        auto& c = family.all[static_cast<std::size_t>(r)];
        int status = 0;
        if (!c.running) continue;
        pid_t const ended = ::waitpid(c.process, &status, WNOHANG);
        bool const taken_away = ended < 0 && errno == ECHILD;  // a handler that waits for any child took it
        if (ended != c.process && !taken_away) continue;
        c.running = false;
        --running;
        if (status == 0 && !taken_away) continue;
        if (!std::exchange(impatient, true)) patience = deadline::after(std::chrono::seconds(10));
        if (taken_away) {
          failures.push_back(
              {last_look, r,
               join({"rank ", r, " ended, but the program had already reaped it, so its exit code is unknown"})});
          continue;
        }
        failures.push_back(make_failure(r, status, c.report.get(), last_look));
      }
      if (survival.take().survival) {  // of failures seen by now
        impatient = false;
        patience = {};
      }
      last_look = this_look;
    }
    if (failures.empty()) return;
    // Several ranks may have ended between two checks; a rank without a report failed before those that complained of it.
    std::sort(failures.begin(), failures.end(), [](failure const& a, failure const& b) {
      return a.time < b.time || (a.time == b.time && a.rank < b.rank);
    });
    throw error({.code = error_code::rank_lost,
                 .peer = failures.front().rank,
                 .what = list_failures(failures),
                 .way_out = "start with the first, which caused the others"});
  }

 private:
  // In the child: runs the rank and ends the process, past the parent's exit handlers.
  [[noreturn, gnu::cold]] static void be_rank(descriptor const& file, int rank, int ranks, pid_t parent, int report,
                                              rank_function<Transport> f) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the parent ended before prctl took effect
    int code = 0;
    // The parent reads the pipe after this process has ended, so the text is cut to what the pipe holds.
    auto const tell = [&](std::string_view text) {
      if (code != 0) return;
      std::int64_t const now = std::chrono::steady_clock::now().time_since_epoch().count();
      iovec const parts[] = {{const_cast<std::int64_t*>(&now), sizeof now},
                             {const_cast<char*>(text.data()), std::min<std::size_t>(text.size(), 4000)}};
      code = ::writev(report, parts, 2) < 0 ? 2 : 1;
    };
    auto const guarded = [&](auto&& work) {
      try {
        work();
      } catch (std::exception const& e) {
        tell(e.what());
      } catch (...) {
        tell("an exception that is not a std::exception");
      }
    };
    guarded([&] {
      countdown const until(settings::from_environment().timeout);
      communicator<Transport> comm(ranks == 1 ? std::make_unique<Transport>()
                                              : std::make_unique<Transport>(file, rank, ranks, all_tracks, until));
      agree_on_tuning(comm.engine());
      guarded([&] { f(comm); });  // reports before its communicator closes and makes others throw
    });
    flush_output();
    ::_exit(code);
  }

  // Without the rank that threw it, so messages of one fault are equal.
  [[gnu::cold]] static std::string common_part(failure const& f) {
    std::string out = f.said;
    std::string const own = join({" [rank ", f.rank, "]"});
    if (std::size_t const at = out.find(own); at != out.npos) out.erase(at, own.size());
    return out;
  }

  [[gnu::cold]] static std::string list_failures(std::vector<failure> const& all) {
    std::string out;
    std::vector<std::string> known;
    for (failure const& one : all) {
      append(out, {out.empty() ? "" : "\n  ", one.text});
      if (one.said.empty()) continue;
      std::string const common = common_part(one);
      bool const again = std::find(known.begin(), known.end(), common) != known.end();
      out += again ? ", the same error" : join({", ", one.said});
      known.push_back(common);
    }
    return out;
  }

  [[gnu::cold]] static failure make_failure(int rank, int status, int report, std::int64_t last_seen_alive) {
    failure out{last_seen_alive, rank, join({"rank ", rank})};
    int const number = WTERMSIG(status);
    if (WIFSIGNALED(status)) append(out.text, {" was ended by signal ", number, " (", ::strsignal(number), ")"});
    else append(out.text, {" ended with exit code ", WEXITSTATUS(status)});
    char said[4096];
    // Other processes that the rank has started may hold the pipe open, so this does not wait for its end.
    ssize_t const bytes = ::read(report, said, sizeof said);
    if (bytes < static_cast<ssize_t>(sizeof out.time)) return out;
    std::memcpy(&out.time, said, sizeof out.time);
    out.said.assign(said + sizeof out.time, static_cast<std::size_t>(bytes) - sizeof out.time);
    return out;
  }
};

template <class Transport>
void run_processes(int ranks, rank_function<Transport> f) {
  forked_ranks<Transport>::run(ranks, f);
}

template <class Transport>
void run_in_threads(int ranks, rank_function<Transport> f) {
  expect_ranks(ranks);
  auto const shared = std::make_shared<typename Transport::hub>(ranks, all_tracks);
  std::exception_ptr first;
  std::mutex guard;
  {
    std::vector<joined_thread> threads;
    auto const rank = [&](int r) {
      return [&, r] {
        try {
          communicator<Transport> comm(std::make_unique<Transport>(shared, r));
          try {
            agree_on_tuning(comm.engine());
            f(comm);
          } catch (...) {  // reports before its communicator closes and makes others throw
            std::scoped_lock const lock(guard);
            if (!first) first = std::current_exception();
          }
        } catch (...) {
          std::scoped_lock const lock(guard);
          if (!first) first = std::current_exception();
        }
      };
    };
    threads.reserve(static_cast<std::size_t>(ranks));
    int r = 0;
    try {
      for (; r < ranks; ++r) threads.emplace_back(rank(r));
    } catch (...) {  // the system starts no more threads; those that run must not wait for the rest
      {
        std::scoped_lock const lock(guard);
        first = std::current_exception();
      }
      for (; r < ranks; ++r) Transport(shared, r).leave();
    }
  }
  if (first) std::rethrow_exception(first);
}

#if defined(TUTTI_COMPILED)
template void run_processes(int ranks, rank_function<shm> f);
template void run_in_threads(int ranks, rank_function<loopback> f);
#endif

}  // namespace tutti::detail
