// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/estimate.hpp.
#pragma once

#include <algorithm>

#include "tutti/tune/estimate.hpp"

namespace tutti::detail {

TUTTI_INLINE estimated_work work_of(dynamic_schedule const& schedule, collective what, int ranks,
                                    analyze::node_sizes nodes) {
  shape const s{std::min(ranks, max_estimated_ranks)};
  int const chunks = schedule.chunks(s) * schedule.lanes(s);
  auto const most = [](analyze::effort const& a, analyze::effort const& b) -> analyze::effort {
    return {std::max(a.hops, b.hops),
            std::max(a.messages, b.messages),
            std::max(a.sent, b.sent),
            std::max(a.combined, b.combined),
            std::max(a.far_hops, b.far_hops),
            std::max(a.far_sent, b.far_sent),
            std::max(a.far_messages, b.far_messages)};
  };
  analyze::efforts const one = analyze::critical_path(schedule, s, 1, nodes);
  estimated_work out{.first = most(one.longest, one.busiest), .further = {}, .streams = schedule.pipelined};
  out.chunks = static_cast<std::uint64_t>(by_block(what) ? std::max(1, chunks / s.ranks) : chunks);
  if (out.streams) {
    analyze::effort const two = analyze::critical_path(schedule, s, 2, nodes).longest, &first = one.longest;
    out.further = most(
        {two.hops - first.hops, two.messages - first.messages, two.sent - first.sent, two.combined - first.combined,
         two.far_hops - first.far_hops, two.far_sent - first.far_sent, two.far_messages - first.far_messages},
        one.busiest);
  }
  return out;
}

}  // namespace tutti::detail
