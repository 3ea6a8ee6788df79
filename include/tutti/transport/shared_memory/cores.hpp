// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cores of the ranks of a segment: whether each has one, which decides how they wait, and by which caches they are.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Writes down where this rank may run. A launcher may have bound every rank to a core of its own, so one rank's view
// is not enough.
inline void note_cores(rank_page& self) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  static_assert(sizeof set == sizeof self.cores);
  std::memcpy(self.cores, &set, sizeof set);
}

inline patience patience_for(segment const& s, int ranks) {
  int cores = 0;
  for (std::size_t word = 0; word < std::size(s.rank(0).cores); ++word) {
    std::uint64_t any = 0;
    for (int r = 0; r < ranks; ++r) any |= s.rank(r).cores[word];
    cores += std::popcount(any);
  }
  return cores >= ranks ? patience_with_cores : patience_sharing_cores;
}

[[gnu::cold]] inline std::vector<location> locations_in(segment const& s, int ranks) {
  std::vector<location> out;
  for (int r = 0; r < ranks; ++r) {
    cpu_set_t set;
    std::memcpy(&set, s.rank(r).cores, sizeof set);
    out.push_back({0, last_level_cache(set)});
  }
  return out;
}

}  // namespace tutti::detail
