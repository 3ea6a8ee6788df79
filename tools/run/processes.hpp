// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of the ranks: which of them run, and which take part in the job.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace launcher {

using clock_type = std::chrono::steady_clock;

inline constexpr std::chrono::seconds termination_time(5);  // from SIGTERM to SIGKILL

class processes {
 public:
  explicit processes(int ranks) : all_(static_cast<std::size_t>(ranks)) {}

  // The members take part in the job: not a process that waits to join the others, nor one that they have excluded.
  void note_start(int rank, pid_t process, bool is_member) {
    all_[static_cast<std::size_t>(rank)] = {.process = process, .is_member = is_member};
  }
  bool any() const {
    return std::ranges::any_of(all_, [](one const& p) { return p.process > 0; });
  }
  int members() const {
    return static_cast<int>(std::ranges::count_if(all_, [](one const& p) { return p.process > 0 && p.is_member; }));
  }
  bool is_member(std::size_t rank) const { return all_[rank].is_member; }
  // Returns whether it was one.
  bool leave(std::size_t rank) { return std::exchange(all_[rank].is_member, false); }
  // Returns whether it is one only now.
  bool join(int rank) {
    auto const r = static_cast<std::size_t>(rank);
    return r < all_.size() && !std::exchange(all_[r].is_member, true);
  }
  std::optional<std::size_t> rank_of(pid_t process) const {
    auto const found = std::ranges::find(all_, process, &one::process);
    if (found == all_.end()) return {};
    return static_cast<std::size_t>(found - all_.begin());
  }
  // "0, 2"
  std::string list_running() const {
    std::string out;
    for (std::size_t r = 0; r < all_.size(); ++r)
      if (all_[r].process > 0) out += fmt::format("{}{}", out.empty() ? "" : ", ", r);
    return out;
  }

  struct end {
    std::size_t rank;
    int status;  // of waitpid
  };
  // Those that have ended. Killed ranks come first, because they cause the failures of others.
  std::vector<end> reap() {
    std::vector<end> out;
    int status = 0;
    for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      auto const r = rank_of(process);
      if (!r) continue;  // an orphan
      all_[*r].process = -1;
      all_[*r].kill.reset();
      out.push_back({*r, status});
    }
    std::ranges::sort(out, {}, [](end const& e) { return std::pair(!WIFSIGNALED(e.status), e.rank); });
    return out;
  }

  void send(int signal) const {
    for (one const& p : all_)
      if (p.process > 0) ::kill(p.process, signal);
  }
  // Ends a process that nobody needs, unless it is a member: by SIGTERM now, and by SIGKILL after termination_time.
  void terminate(std::size_t rank) {
    one& p = all_[rank];
    if (p.process <= 0 || p.is_member || p.kill) return;
    ::kill(p.process, SIGTERM);
    ::kill(p.process, SIGCONT);  // one that is stopped ends, too
    p.kill = clock_type::now() + termination_time;
  }
  void terminate_others_than_members() {
    for (std::size_t r = 0; r < all_.size(); ++r) terminate(r);
  }
  void kill_overdue() {
    for (one& p : all_) {
      if (!p.kill || clock_type::now() < *p.kill) continue;
      p.kill.reset();
      if (p.process > 0 && !p.is_member) ::kill(p.process, SIGKILL);
    }
  }
  // When to call that.
  std::optional<clock_type::time_point> next_kill() const {
    std::optional<clock_type::time_point> out;
    for (one const& p : all_)
      if (p.kill && (!out || *p.kill < *out)) out = p.kill;
    return out;
  }

  // Kills children until none are left but those that this process had before it became tutti-run: it inherits the children of each one
  // that ends.
  void end_orphans() const {
    while (true) {
      std::vector<pid_t> orphans = children();
      std::erase_if(orphans, [&](pid_t p) { return std::ranges::find(earlier_, p) != earlier_.end(); });
      if (orphans.empty()) return;
      for (pid_t const process : orphans)
        ::kill(process, SIGKILL);  // all: a process that another traces ends only after it
      for (pid_t const process : orphans) ::waitpid(process, nullptr, 0);
    }
  }

 private:
  struct one {
    pid_t process = -1;  // -1 once it has ended
    bool is_member = true;
    std::optional<clock_type::time_point> kill{};  // when it is killed, unless SIGTERM ends it
  };

  // None if the kernel does not provide this list.
  static std::vector<pid_t> children() {
    std::ifstream list(fmt::format("/proc/self/task/{}/children", ::getpid()));
    return {std::istream_iterator<pid_t>(list), {}};
  }

  std::vector<one> all_;                           // of each rank
  std::vector<pid_t> const earlier_ = children();  // of a shell that has started this program by exec
};

}  // namespace launcher
