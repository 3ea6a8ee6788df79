// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A handle on another process, which tells when that has ended. Copies share it.
#pragma once

#include <memory>
#include <sys/types.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

class process_watch {
 public:
  // At most once. Throws error: system, where this process may open no more files.
  [[gnu::cold]] void begin(pid_t process);
  bool begun() const noexcept { return begun_; }

  // Orderly or not; false where that cannot be known.
  bool ended() const noexcept;

 private:
  std::shared_ptr<descriptor const> handle_;
  bool begun_ = false;
  bool ended_ = false;  // there was nothing left to get a handle on
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/process_watch_impl.hpp"
#endif
