// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A handle on another process, which tells when that has ended. Copies share it.
#pragma once

#include <cerrno>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

class process_watch {
 public:
  // At most once. Throws error: system, where this process may open no more files.
  [[gnu::cold]] void begin(pid_t process) {
    begun_ = true;
    descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (handle) {
      handle_ = std::make_shared<descriptor>(std::move(handle));
      return;
    }
    ended_ = errno == ESRCH;
    if (errno == EMFILE || errno == ENFILE)
      throw_system("cannot watch process " + std::to_string(process), "raise the limit of open files (ulimit -n)");
  }
  bool begun() const noexcept { return begun_; }

  // Orderly or not; false where that cannot be known.
  bool ended() const noexcept {
    if (!handle_) return ended_;
    pollfd end{handle_->get(), POLLIN, 0};
    return ::poll(&end, 1, 0) > 0;
  }

 private:
  std::shared_ptr<descriptor const> handle_;
  bool begun_ = false;
  bool ended_ = false;  // there was nothing left to get a handle on
};

}  // namespace tutti::detail
