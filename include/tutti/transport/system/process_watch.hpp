// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells whether another process has ended. Copies share one handle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <sys/types.h>

#include "tutti/transport/system/descriptor.hpp"
#include "tutti/transport/system/distant_process.hpp"

namespace tutti::detail {

class watched_descriptor;

class process_watch {
 public:
  // Call at most once. Throws error: system, if this process may open no more files.
  [[gnu::cold]] void begin(pid_t process);
  // The same for a process that this one cannot see, as in another container: it has the other end of this connection, which
  // closes with it.
  [[gnu::cold]] void begin(descriptor const& connection);
  // The same for a process of another machine.
  [[gnu::cold]] void begin(process_port const& port);
  bool begun() const noexcept { return begun_; }

  // In order or not; false if that cannot be known.
  bool ended() const noexcept;
  // By a signal or a debugger; false if that cannot be known.
  [[gnu::cold]] bool stopped() const noexcept;

 private:
  // As /proc tells it. `start` is in ticks since the system started, and 0 if there is no such process.
  struct sight {
    char state;
    std::uint64_t start;
    bool ended() const noexcept { return state == 'Z' || state == 'X'; }
  };
  // Empty if it cannot be read.
  [[gnu::cold]] static std::optional<sight> look_at(pid_t process) noexcept;

  pid_t process_ = 0;
  std::shared_ptr<watched_descriptor const> handle_;
  distant_process* distant_ = nullptr;
  // What was seen first, where handles are refused (containers filter pidfd_open). A look takes microseconds.
  std::optional<sight> first_;
  bool begun_ = false;
  bool ended_ = false;  // the process had ended before there was a handle
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/process_watch_impl.hpp"
#endif
