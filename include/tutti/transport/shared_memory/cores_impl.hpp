// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/cores.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <string>

#include "tutti/core/file.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/transport/shared_memory/cores.hpp"

namespace tutti::detail {

// Linux divides time among control groups with a share of the processor and, outside them, among sessions.
[[gnu::cold]] TUTTI_INLINE std::uint64_t time_group() {
  std::string const session = read_file("/proc/self/autogroup").value_or(""),
                    groups = read_file("/proc/self/cgroup").value_or("");
  std::string names = session.substr(0, session.find(' '));                   // "/autogroup-12 nice 0"
  for (std::size_t begin = 0, end; begin < groups.size(); begin = end + 1) {  // "3:cpu,cpuacct:/path" or "0::/path"
    end = std::min(groups.find('\n', begin), groups.size());
    std::string const line = groups.substr(begin, end - begin);
    std::size_t const first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string const controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    if (controllers == ",," || controllers.find(",cpu,") != std::string::npos) names += line.substr(second);
  }
  return hash_of(names);
}

TUTTI_INLINE void note_cores(rank_page& self) {
  self.time_group = time_group();
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
  patience out = cores >= ranks ? patience_with_cores : patience_sharing_cores;
  for (int r = 1; r < ranks; ++r)  // threads of one process do not note it
    out.yields_reach_peers &= s.rank(r).time_group == 0 || s.rank(r).time_group == s.rank(0).time_group;
  if (cores < ranks && !out.yields_reach_peers) out.yields = std::chrono::microseconds{0};
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
