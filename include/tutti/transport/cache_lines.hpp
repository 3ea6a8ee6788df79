// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a core hands cache lines to another one.
#pragma once

#include <cstddef>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "tutti/core/cache_line.hpp"

namespace tutti::detail {

[[gnu::cold]] inline bool cpu_has_cldemote() {
#if defined(__x86_64__)
  constexpr unsigned cldemote = 1 << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & cldemote) != 0;
#else
  return false;
#endif
}

// Whether a mesh joins the cores, each with a large second-level cache, as in Intel's server processors since Sapphire Rapids. They are
// recognised by an instruction that only they have (as have some of Intel's small cores). Tests set it.
inline bool on_mesh = cpu_has_cldemote();

// Fetches lines that are about to be written. Compilers prefetch for reading unless they compile for a processor whose features they
// know. One without the instruction ignores it.
inline void prefetch_for_writing(void const* first, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += cache_line) {
    auto const* const line = static_cast<char const*>(first) + at;
#if defined(__x86_64__)
    asm volatile("prefetchw %0" ::"m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  }
}

// Moves lines that were just written from the caches of this core to the third level, where their reader finds them sooner. Processors
// without the instruction ignore it.
inline void demote([[maybe_unused]] void const* first, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__x86_64__)
  for (std::size_t at = 0; at < bytes; at += cache_line)
    asm volatile("cldemote %0" ::"m"(static_cast<char const*>(first)[at]));
#endif
}

}  // namespace tutti::detail
