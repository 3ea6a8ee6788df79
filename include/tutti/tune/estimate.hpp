// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model: what an algorithm would take where nothing was measured, read off its schedule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tutti/analyze/critical_path.hpp"
#include "tutti/tune/table.hpp"

namespace tutti::detail {

// One slice through the whole schedule, and what each further one adds where slices stream.
struct estimated_work {
  analyze::effort first, further;
  std::uint64_t chunks = 1;  // of the message in all lanes; of one block where chunks are blocks
  bool streams = false;
};

// For more ranks the work of this many: which algorithm is best has settled by then, and the search grows with the
// square.
inline constexpr int most_estimated_ranks = 32;

[[gnu::cold]] inline estimated_work work_of(dynamic_schedule const& schedule, collective what, int ranks,
                                            analyze::even_nodes nodes = {}) {
  shape const s{std::min(ranks, most_estimated_ranks)};
  int const chunks = schedule.chunks(s) * schedule.lanes(s);
  auto const most = [](analyze::effort const& a, analyze::effort const& b) -> analyze::effort {
    return {std::max(a.hops, b.hops),         std::max(a.messages, b.messages), std::max(a.sent, b.sent),
            std::max(a.combined, b.combined), std::max(a.far_hops, b.far_hops), std::max(a.far_sent, b.far_sent)};
  };
  analyze::efforts const one = analyze::critical_path(schedule, s, 1, nodes)();
  estimated_work out{.first = most(one.longest, one.busiest), .further = {}, .streams = schedule.pipelined};
  out.chunks = static_cast<std::uint64_t>(by_block(what) ? std::max(1, chunks / s.ranks) : chunks);
  if (out.streams) {
    analyze::effort const two = analyze::critical_path(schedule, s, 2, nodes)().longest, &first = one.longest;
    out.further = most({two.hops - first.hops, two.messages - first.messages, two.sent - first.sent,
                        two.combined - first.combined, two.far_hops - first.far_hops, two.far_sent - first.far_sent},
                       one.busiest);
  }
  return out;
}

// Above this size nothing changes but the sums, which must fit a word.
inline constexpr std::size_t most_estimated_bytes = std::size_t{1} << 32;
inline constexpr std::uint64_t streamed_slice = 16 * 1024;  // a slot of a channel

// In picoseconds. `far`: what a message takes from node to node.
constexpr std::uint64_t time_of(analyze::effort const& e, std::uint64_t chunk_bytes, costs const& c, link_time far) {
  return e.hops * c.hop + e.far_hops * far.latency + e.messages * c.message +
         (e.sent * c.sent + e.far_sent * far.byte + e.combined * c.combined) * chunk_bytes / 1000;
}
constexpr std::uint64_t time_of(estimated_work const& w, std::size_t bytes, costs const& c, link_time far = {}) {
  std::uint64_t const chunk = (std::min(bytes, most_estimated_bytes) + w.chunks - 1) / w.chunks;
  if (!w.streams || chunk <= streamed_slice) return time_of(w.first, chunk, c, far);
  std::uint64_t const slices = (chunk + streamed_slice - 1) / streamed_slice;
  return time_of(w.first, streamed_slice, c, far) + (slices - 1) * time_of(w.further, streamed_slice, c, far);
}

// Fewer ranks on fewer nodes, which are even: what work_of can still search, in one level and in two.
constexpr problem in_small(problem p) {
  int const each = std::clamp((p.ranks + p.node_count - 1) / p.node_count, 1, most_estimated_ranks / 2);
  p.node_count = std::min(p.node_count, most_estimated_ranks / each);
  p.ranks = each * p.node_count;
  return p;
}

}  // namespace tutti::detail
