// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/caches.hpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "tutti/core/file.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

TUTTI_INLINE cpu_set_t parse_cores(char const* list) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (char* end = nullptr;; list = end + 1) {
    unsigned long const first = std::strtoul(list, &end, 10);
    if (end == list) break;
    unsigned long const last = *end == '-' ? std::strtoul(end + 1, &end, 10) : first;
    for (unsigned long core = first; core <= last && core < CPU_SETSIZE; ++core) CPU_SET(core, &out);
    if (*end != ',') break;
  }
  return out;
}

TUTTI_INLINE cpu_set_t usable_cores() {
  cpu_set_t parts[16]{};  // the system refuses a set that is smaller than its own
  if (::sched_getaffinity(0, sizeof parts, parts) == 0)
    for (cpu_set_t const& part : parts) CPU_OR(&parts[0], &parts[0], &part);
  return parts[0];
}

TUTTI_INLINE int lowest_core(cpu_set_t const& cores) {
  int core = 0;
  while (core < CPU_SETSIZE && !CPU_ISSET(static_cast<std::size_t>(core), &cores)) ++core;
  return core;
}

TUTTI_INLINE int last_level_cache(cpu_set_t const& cores, std::string const& folder) {
  std::uint64_t highest = 0;
  cpu_set_t sharing;
  CPU_ZERO(&sharing);
  for (int index = 0;; ++index) {
    std::string const cache = join({folder, "/cpu", detail::lowest_core(cores), "/cache/index", index});
    auto const level = read_file(join({cache, "/level"})), list = read_file(join({cache, "/shared_cpu_list"}));
    if (!level || !list) break;
    std::uint64_t number = 0;
    if (read_number(*level, std::numeric_limits<int>::max(), number) == 0 || number < highest) continue;
    highest = number;
    sharing = detail::parse_cores(list->c_str());
  }
  cpu_set_t both;
  CPU_AND(&both, &cores, &sharing);
  return CPU_COUNT(&both) > 0 && CPU_EQUAL(&both, &cores) ? detail::lowest_core(sharing) : no_cache;
}

TUTTI_INLINE bool share_caches(std::vector<location> const& places, node_map const& nodes) {
  for (int node = 0; node < nodes.count(); ++node)
    for (int const m : nodes.members(node)) {
      int const cache = places[static_cast<std::size_t>(m)].cache;
      if (cache == no_cache || cache != places[static_cast<std::size_t>(nodes.members(node)[0])].cache) return false;
    }
  return true;
}

}  // namespace tutti::detail
