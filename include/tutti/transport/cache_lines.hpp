// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a core hands cache lines to another one.
#pragma once

#include <cstddef>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::detail {

inline constexpr std::size_t cache_line = 64;

#if defined(__x86_64__)
[[gnu::cold]] inline bool cpu_has_cldemote() {
  constexpr unsigned cldemote = 1 << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & cldemote) != 0;
}
#endif

// Whether a mesh joins the cores, each with a large second-level cache, as in Intel's server processors since Sapphire Rapids. They are
// recognised by an instruction that only they have (as have some of Intel's small cores). Tests set it.
#if defined(__x86_64__)
inline bool on_mesh = cpu_has_cldemote();
#else
inline bool on_mesh = false;
#endif

// Fetches a line that is about to be written. Compilers prefetch for reading unless they compile for a processor whose features they
// know. One without the instruction ignores it.
inline void prefetch_for_writing(void const* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<char const*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Moves a line that was just written from the caches of this core to the third level, where its reader finds it sooner. Processors
// without the instruction ignore it.
inline void demote(void const* line) noexcept {
#if defined(__x86_64__)
  asm volatile("cldemote %0" ::"m"(*static_cast<char const*>(line)));
#endif
}

}  // namespace tutti::detail
