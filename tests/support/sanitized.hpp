// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a sanitizer looks on. Everything takes ten times as long then, so tests that repeat themselves do so less.
#pragma once

#include <vector>

namespace tutti::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true, thread_sanitized = true;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true, thread_sanitized = false;
#elif defined(__has_feature)
inline constexpr bool thread_sanitized = __has_feature(thread_sanitizer);  // clang
inline constexpr bool sanitized = thread_sanitized || __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false, thread_sanitized = false;
#endif

// The numbers of ranks to test, of these: memory errors and races show among few ranks.
inline std::vector<int> ranks_to_test(std::vector<int> all) {
  if (sanitized) std::erase_if(all, [](int ranks) { return ranks > 3; });
  return all;
}

}  // namespace tutti::testing
