// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/process_watch.hpp.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/text.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// A program may close descriptors that it did not open, as daemons do, and then open files of its own under their numbers. These are
// neither looked at nor closed. A forked child keeps no such descriptor: a connection by which the other process watches this one, too,
// would stay open there when this process has ended.
class watched_descriptor : public descriptor {
 public:
  [[gnu::cold]] explicit watched_descriptor(descriptor own) : descriptor(std::move(own)) {
    ::fstat(get(), &file_);
    std::lock_guard const lock(of_process().busy);
    of_process().all.push_back(this);
  }
  watched_descriptor(watched_descriptor const&) = delete;
  watched_descriptor& operator=(watched_descriptor const&) = delete;
  [[gnu::cold]] ~watched_descriptor() {
    std::lock_guard const lock(of_process().busy);
    std::erase(of_process().all, this);
    close();
  }
  [[gnu::cold]] bool intact() const noexcept {
    struct stat now{};
    return ::fstat(get(), &now) == 0 && now.st_dev == file_.st_dev && now.st_ino == file_.st_ino;
  }

 private:
  struct list {
    std::mutex busy;  // held during a fork
    std::vector<watched_descriptor*> all;

    list() {
      auto const prepare = [] { of_process().busy.lock(); };
      auto const continue_parent = [] { of_process().busy.unlock(); };
      auto const continue_child = [] {
        for (watched_descriptor* const one : of_process().all) one->close();
        of_process().busy.unlock();
      };
      ::pthread_atfork(prepare, continue_parent, continue_child);
    }
  };
  [[gnu::cold, gnu::noinline]] static list& of_process() {
    static list& all = *new list;  // never destroyed, because static objects may use it as the process ends
    return all;
  }
  [[gnu::cold]] void close() noexcept {
    if (!intact()) forget();
    static_cast<descriptor&>(*this) = descriptor();
  }

  struct stat file_{};
};

TUTTI_INLINE void process_watch::begin(pid_t process) {
  begun_ = true;
  process_ = process;
  descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (handle) {
    handle_ = std::make_shared<watched_descriptor>(std::move(handle));
    return;
  }
  if (errno == EMFILE || errno == ENFILE) throw_system(join({"cannot watch process ", process}), "");
  ended_ = errno == ESRCH;
  if (!ended_) first_ = look_at(process);
  ended_ |= first_ && first_->ended();
}

TUTTI_INLINE void process_watch::begin(descriptor const& connection) {
  begun_ = true;
  descriptor own(::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!own) throw_system("cannot watch a process by its connection", "");
  handle_ = std::make_shared<watched_descriptor>(std::move(own));
}

TUTTI_INLINE void process_watch::begin(process_port const& port) {
  begun_ = true;
  distant_ = &distant_process::at(port);
}

TUTTI_INLINE std::optional<process_watch::sight> process_watch::look_at(pid_t process) noexcept {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  errno = 0;
  descriptor const file(::open(path, O_RDONLY | O_CLOEXEC));
  ssize_t const bytes = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (bytes <= 0 && (errno == ENOENT || errno == ESRCH)) return sight{'?', 0};
  if (bytes <= 0) return {};
  text[bytes] = '\0';
  // The name, in parentheses, may contain any characters. After it come the state and 18 numbers, then the start.
  char const* at = std::strrchr(text, ')');
  char state = 'X';
  unsigned long long start = 0;
  char const* const fields = ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
  if (at == nullptr || std::sscanf(at, fields, &state, &start) != 2) return {};
  return sight{state, start};
}

TUTTI_INLINE bool process_watch::ended() const noexcept {
  if (distant_) return distant_->ended();
  if (!handle_ && (ended_ || !first_)) return ended_;
  if (!handle_) {
    sight const now = look_at(process_).value_or(*first_);
    return now.ended() || now.start != first_->start;
  }
  pollfd end{handle_->get(), POLLIN, 0};
  if (::poll(&end, 1, 0) <= 0) return false;
  if (handle_->intact()) return true;
  auto const now = process_ != 0 ? look_at(process_) : std::nullopt;
  return now && (now->ended() || now->start == 0);
}

TUTTI_INLINE bool process_watch::stopped() const noexcept {
  if (process_ == 0 || ended()) return false;
  char const state = look_at(process_).value_or(sight{}).state;
  return state == 'T' || state == 't';
}

}  // namespace tutti::detail
