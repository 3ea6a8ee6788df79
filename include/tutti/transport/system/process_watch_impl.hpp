// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/process_watch.hpp.
#pragma once

#include <cerrno>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "tutti/core/text.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

TUTTI_INLINE void process_watch::begin(pid_t process) {
  begun_ = true;
  descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (handle) {
    handle_ = std::make_shared<descriptor>(std::move(handle));
    return;
  }
  ended_ = errno == ESRCH;
  if (errno == EMFILE || errno == ENFILE)
    throw_system(join({"cannot watch process ", process}), "raise the limit of open files (ulimit -n)");
}

TUTTI_INLINE bool process_watch::ended() const noexcept {
  if (!handle_) return ended_;
  pollfd end{handle_->get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

}  // namespace tutti::detail
