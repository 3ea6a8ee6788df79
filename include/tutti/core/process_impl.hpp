// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/process.hpp.
#pragma once

#include <cstdio>
#include <iostream>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/core/background.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/file.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE std::uint64_t namespace_at(char const* path) noexcept {
  struct stat info{};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

TUTTI_INLINE std::uint64_t own_namespace(char const* kind) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
  return namespace_at(path);
}

TUTTI_INLINE std::uint64_t process_namespace_of(pid_t process) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/ns/pid", process);
  return namespace_at(path);
}

TUTTI_INLINE std::uint64_t running_system() { return hash_of(text_of_file("/proc/sys/kernel/random/boot_id")); }

TUTTI_INLINE void flush_output() noexcept {
  try {
    std::cout.flush();
    std::clog.flush();
    std::wcout.flush();
    std::wclog.flush();
  } catch (...) {  // streams may be set to throw
  }
  std::fflush(nullptr);
}

TUTTI_INLINE owning_process::owning_process() : number_(::getpid()) {
  static int const counted = ::pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    // They are its parent's, as are the threads that wait for them and drive them.
    background_jobs.store(0, std::memory_order_relaxed);
    background_waiters.store(0, std::memory_order_relaxed);
    background_threads.store(0, std::memory_order_relaxed);
  });
  static_cast<void>(counted);
  forks_ = forks.load(std::memory_order_relaxed);
}

TUTTI_INLINE void owning_process::refuse_child(std::source_location where) const {
  throw error({.code = error_code::bad_argument,
               .what = join(
                   {"process ", ::getpid(), " uses a communicator of process ", number_, ", from which it was forked"}),
               .way_out = "make calls in the process that created the communicator",
               .where = where});
}

}  // namespace tutti::detail
