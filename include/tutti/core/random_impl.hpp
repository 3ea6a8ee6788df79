// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definition of core/random.hpp.
#pragma once

#include <atomic>
#include <ctime>
#include <sys/random.h>
#include <unistd.h>

#include "tutti/core/config.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/random.hpp"

namespace tutti::detail {

TUTTI_INLINE std::uint64_t random_number() noexcept {
  std::uint64_t out = 0;
  if (::getrandom(&out, sizeof out, 0) == sizeof out) return out;
  static std::atomic<std::uint64_t> drawn{0};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t const parts[] = {static_cast<std::uint64_t>(now.tv_sec), static_cast<std::uint64_t>(now.tv_nsec),
                                 static_cast<std::uint64_t>(::getpid()), process_namespace(), drawn.fetch_add(1)};
  return hash_of(parts);
}

}  // namespace tutti::detail
