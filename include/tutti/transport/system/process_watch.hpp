// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells whether another process has ended. Copies share one handle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <sys/types.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

class process_watch {
 public:
  // Call at most once. Throws error: system, if this process may open no more files.
  [[gnu::cold]] void begin(pid_t process);
  bool begun() const noexcept { return begun_; }

  // In order or not; false if that cannot be known.
  bool ended() const noexcept;

 private:
  // When a process started, in ticks since the system did; 0 if it has ended; empty if that cannot be read.
  [[gnu::cold]] static std::optional<std::uint64_t> start_of(pid_t process) noexcept;

  std::shared_ptr<descriptor const> handle_;
  // Where handles are refused (containers filter pidfd_open), /proc is asked, which takes microseconds each time.
  pid_t process_ = 0;
  std::optional<std::uint64_t> start_;
  bool begun_ = false;
  bool ended_ = false;  // the process had ended before there was a handle
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/process_watch_impl.hpp"
#endif
