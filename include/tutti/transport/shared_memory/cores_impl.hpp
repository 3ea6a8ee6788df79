// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/cores.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <sched.h>

#include "tutti/transport/shared_memory/cores.hpp"

namespace tutti::detail {

TUTTI_INLINE void note_cores(rank_page& self) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  static_assert(sizeof set == sizeof self.cores);
  std::memcpy(self.cores, &set, sizeof set);
}

TUTTI_INLINE patience patience_for(segment const& s, int ranks) {
  int cores = 0;
  for (std::size_t word = 0; word < std::size(s.rank(0).cores); ++word) {
    std::uint64_t any = 0;
    for (int r = 0; r < ranks; ++r) any |= s.rank(r).cores[word];
    cores += std::popcount(any);
  }
  return cores >= ranks ? patience_with_cores : patience_sharing_cores;
}

TUTTI_INLINE std::vector<location> locations_in(segment const& s, int ranks) {
  std::vector<location> out(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    cpu_set_t set;
    std::memcpy(&set, s.rank(r).cores, sizeof set);
    out[static_cast<std::size_t>(r)].cache = last_level_cache(set);
  }
  return out;
}

}  // namespace tutti::detail
