// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/cores.hpp.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <string>

#include "tutti/core/file.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/shared_memory/cores.hpp"
#include "tutti/transport/system/control_group.hpp"

namespace tutti::detail {

// Linux divides time among control groups with a share of the processor and, outside them, among sessions. Containers with
// namespaces of control groups of their own may see equal paths, so the namespace counts, too.
TUTTI_INLINE std::uint64_t time_group() {
  std::string const session = text_of_file("/proc/self/autogroup"),  // "/autogroup-12 nice 0"
      groups = text_of_file("/proc/self/cgroup");
  return hash_of(
      join({std::string_view(session).substr(0, session.find(' ')), " ", group_in(groups, "cpu").value_or(""), " ",
            group_in(groups, "").value_or(""), " ", own_namespace("cgroup")}));
}

TUTTI_INLINE void note_cores(rank_page& self) {
  self.time_group = time_group();
  cpu_set_t const set = usable_cores();
  static_assert(sizeof set == sizeof self.cores);
  std::memcpy(self.cores, &set, sizeof set);
}

TUTTI_INLINE patience patience_for(segment const& s, int ranks, bool crowded) {
  int cores = 0;
  for (std::size_t word = 0; word < std::size(s.rank(0).cores); ++word) {
    std::uint64_t any = 0;
    for (int r = 0; r < ranks; ++r) any |= s.rank(r).cores[word];
    cores += std::popcount(any);
  }
  crowded |= cores < ranks;
  patience out = crowded ? patience_sharing_cores : patience_with_cores;
  for (int r = 1; r < ranks; ++r)  // threads of one process do not note it
    out.yields_reach_peers &= s.rank(r).time_group == 0 || s.rank(r).time_group == s.rank(0).time_group;
  if (crowded && !out.yields_reach_peers) out.yields = std::chrono::microseconds{0};
  return out;
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
