// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a sanitizer looks on. Everything takes ten times as long then, so tests that repeat themselves do so less.
#pragma once

namespace tutti::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);  // clang
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace tutti::testing
