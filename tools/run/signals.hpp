// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The signals that tutti-run receives: those that it forwards to the ranks, and the ends of these.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>
#include <optional>
#include <unistd.h>

#include "say.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace launcher {

class signals {
 public:
  // Threads that start later block these signals, too.
  signals() {
    // Ignored, as by some programs that start this one, it would keep the system from telling how processes end.
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    for (int const s : forwarded)
      if (!is_ignored(s)) sigaddset(&mine, s);  // the ranks ignore those, too, such as SIGHUP under nohup
    sigprocmask(SIG_BLOCK, &mine, &before_);
    file_ = tutti::detail::descriptor(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!file_) give_up("signalfd");
  }

  int handle() const { return file_.get(); }  // readable when there is a signal
  std::optional<signalfd_siginfo> next() const {
    signalfd_siginfo info{};
    if (::read(file_.get(), &info, sizeof info) != sizeof info) return {};
    return info;
  }

  // The mask with which this program was started, for the ranks, and for the end of this program.
  sigset_t const& before() const { return before_; }
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  static constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

  static bool is_ignored(int number) {
    struct sigaction now{};
    return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  }

  sigset_t before_{};
  tutti::detail::descriptor file_;
};

}  // namespace launcher
