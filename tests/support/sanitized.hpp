// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a sanitizer looks on. Everything takes ten times as long then, so tests that repeat themselves do so less.
#pragma once

#include <vector>

namespace tutti::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);  // clang
#else
inline constexpr bool sanitized = false;
#endif

// Numbers of ranks, or fewer: a power of two, others, and some of which a fold takes two.
inline std::vector<int> rank_counts(std::vector<int> all) { return sanitized ? std::vector{1, 3, 4, 6} : all; }

}  // namespace tutti::testing
