// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/estimate.hpp.
#pragma once

#include "tutti/tune/estimate.hpp"

namespace tutti::detail {

// What one rank does. A message that is sent as it lies in memory is copied into a slot for each receiver; one that is passed on
// is written to these slots in the pass that keeps it.
[[gnu::cold]] inline core_work work_of_core(dynamic_schedule const& schedule, shape const& s, int rank) {
  core_work out;
  auto const length = [](region const& r) { return static_cast<std::uint64_t>(r.split ? 1 : r.what.count); };
  for (int track = 0; track < schedule.lanes(s) * schedule.phases(s); ++track) {
    position const me{rank, track / schedule.phases(s), track % schedule.phases(s)};
    for (int i = 0; i < schedule.steps(s, me); ++i) {
      step const now = schedule.at(s, me, i);
      auto const others_of = [&](peers const& all) {
        std::uint64_t n = 0;
        for (int k = 0; k < all.count; ++k) n += all.at(k, s.ranks) != rank;
        return n;
      };
      std::uint64_t const to = others_of(now.to), from = others_of(now.from), n = length(now.keep);
      bool const keeps = now.keep.where != space::none;
      if (now.forwards()) {
        out.served += to * n;
        out.staged += to * n;
        if (!keeps) out.in_place += to * n, out.besides += to * n;
      } else {
        out.served += to * length(now.give);
        out.staged += 2 * to * length(now.give);
      }
      if (now.from.empty()) continue;
      out.fetched += from * n;
      // A reduction keeps one result; otherwise each source is kept.
      std::uint64_t const results = now.reduces() ? 1 : static_cast<std::uint64_t>(now.from.count);
      std::uint64_t const touched = results * n * (keeps ? 2 : 1);
      out.staged += touched;
      out.in_place += touched;
      out.besides += now.reduces() ? touched : touched - from * n * (keeps ? 2 : 1);
      if (now.reduces()) out.combined += static_cast<std::uint64_t>(now.from.count - 1) * n;
    }
  }
  if (!schedule.direct) out.in_place = out.staged;
  return out;
}

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
  estimated_work out{.first = most(one.longest, one.busiest), .further = {}, .core = {}, .streams = schedule.pipelined};
  out.chunks = static_cast<std::uint64_t>(by_block(what) ? std::max(1, chunks / s.ranks) : chunks);
  if (out.streams) {
    analyze::effort const two = analyze::critical_path(schedule, s, 2, nodes).longest, &first = one.longest;
    out.further = most(
        {two.hops - first.hops, two.messages - first.messages, two.sent - first.sent, two.combined - first.combined,
         two.far_hops - first.far_hops, two.far_sent - first.far_sent, two.far_messages - first.far_messages},
        one.busiest);
  }
  for (int rank = 0; rank < s.ranks; ++rank) {
    core_work const here = work_of_core(schedule, s, rank);
    for (auto const kind : {&core_work::staged, &core_work::in_place, &core_work::combined, &core_work::fetched,
                            &core_work::besides, &core_work::served})
      out.core.*kind = std::max(out.core.*kind, here.*kind);
  }
  return out;
}

TUTTI_INLINE std::uint64_t time_in_memory(estimated_work const& w, problem const& p, costs const& c, protocol how) {
  core_work const& core = w.core;
  std::uint64_t const chunk = (std::min(p.bytes, max_estimated_bytes) + w.chunks - 1) / w.chunks;
  std::uint64_t const touched = c.sent / 4, combined = core.combined * c.combined;
  if (how == protocol::packet) {
    auto const ranks = static_cast<std::uint64_t>(p.ranks);
    std::uint64_t const lines = std::max(core.fetched, core.served / undisturbed_readers) * ranks /
                                std::min<std::uint64_t>(ranks, max_estimated_ranks);
    return (c.hop + lines * c.message) / 2 + (core.in_place * touched + combined) * chunk / 1000;
  }
  if (how == protocol::pull) {
    std::uint64_t const slice = fetched_slice(p.ranks, reduces(p.what)),
                        calls = core.fetched * ((chunk + slice - 1) / slice),
                        own = core.besides * touched + core.fetched * assumed_fetch.byte + combined,
                        served = core.served * assumed_fetch.byte / undisturbed_readers;
    return w.first.hops * c.hop + w.first.messages * c.message + calls * assumed_fetch.latency +
           std::max(own, served) * chunk / 1000;
  }
  bool const staged = how == protocol::staged;
  std::uint64_t const own = (staged ? core.staged : core.in_place) * touched + combined,
                      served = staged ? 0 : core.served * 2 * touched / undisturbed_readers;
  std::uint64_t const head = std::min(chunk, streamed_slice), slices = (chunk + streamed_slice - 1) / streamed_slice;
  std::uint64_t const further = w.streams && slices > 1 ? (slices - 1) * w.further.hops : 0;
  analyze::effort first = w.first;
  if (!staged) first.sent = 0;
  return time_of(first, head, c, {}) + further * c.hop + (staged ? 0 : first.hops * 2 * touched * head / 1000) +
         std::max(own, served) * (chunk - head) / 1000;
}

TUTTI_INLINE memory_estimate estimate_in_memory(algorithm_id id, estimated_work const& w, problem const& p,
                                                costs const& c) {
  if (is_packet(id, p)) return {.picoseconds = time_in_memory(w, p, c, protocol::packet)};
  std::uint64_t const staged = time_in_memory(w, p, c, protocol::staged),
                      direct = time_in_memory(w, p, c, protocol::direct);
  // Where ranks share cores, only measurements decide this: there, a copy less frees a core.
  bool const may_fetch = p.pulls && !p.crowded && p.bytes >= min_pull_bytes && may_pull(id, p.what);
  std::uint64_t const pulled = may_fetch ? time_in_memory(w, p, c, protocol::pull) : staged;
  return {pulled < staged ? protocol::pull : protocol::automatic, (std::min(pulled, staged) + direct) / 2};
}

}  // namespace tutti::detail
