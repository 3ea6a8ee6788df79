// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The topology of a communicator: the distance between any two ranks, with its latency and bandwidth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/enum_text.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/caches.hpp"
#include "tutti/tune/links.hpp"
#include "tutti/tune/select.hpp"

namespace tutti {

namespace detail {

inline constexpr char const* distances_in_words[]{"within a last-level cache", "within a node",
                                                  "within a node by MPI messages", "across nodes"};

constexpr std::string_view in_words(distance d) { return text_of<distance::across>(d, distances_in_words, "?"); }

constexpr distance distance_between(location const& a, location const& b) {
  if (a.node != b.node) return distance::across;
  return a.cache == b.cache && a.cache != no_cache ? distance::cache : distance::node;
}

}  // namespace detail

// The distance between ranks: they share a last-level cache (/sys/devices/system/cpu/cpu*/cache of the cores that they
// may run on), a node, or neither. Times are of messages between two ranks while no others communicate: measured by
// tutti-tune or at start (TUTTI_TOPOLOGY=measure), concluded from the times of collectives, or assumed (see tune/links.hpp);
// the same on all ranks.
//
// It stores the times of each level and the location of each rank rather than a matrix: 8 KB for 1,024 ranks.
class topology {
 public:
  struct level {
    detail::distance between;
    std::string ranks;  // "2 nodes of 4 ranks"
    detail::known_link link;
  };

  topology(std::vector<detail::location> places, detail::tuning const& tuned) : places_(std::move(places)) {
    for (detail::distance const d : detail::every_distance) links_[d] = tuned.link(d).time;
    // Ranks with equal locations get the same number for their cache, and a rank without a known cache one of its own.
    auto const word = [](detail::location const& l) {
      return static_cast<std::uint64_t>(l.node) << 32 | static_cast<std::uint32_t>(l.cache);
    };
    std::vector<std::uint64_t> sorted;
    for (detail::location const& l : places_) sorted.push_back(word(l));
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> caches, nodes;
    for (int r = 0; r < ranks(); ++r) {
      detail::location const& here = places_[static_cast<std::size_t>(r)];
      auto const number = std::lower_bound(sorted.begin(), sorted.end(), word(here)) - sorted.begin();
      nodes.push_back(here.node);
      caches.push_back(here.cache == detail::no_cache ? ranks() + r : static_cast<int>(number));
    }
    detail::node_map const by_cache(caches), by_node(nodes);
    auto const add = [&](detail::distance d, detail::node_map const& of, std::string_view noun) {
      levels_.push_back({d, of.text(noun), tuned.link(d)});
    };
    if (by_cache.count() < ranks()) add(detail::distance::cache, by_cache, "cache");
    if (by_cache.count() > by_node.count()) add(detail::distance::node, by_node, "node");
    if (by_node.count() > 1 && by_node.count() < ranks()) add(detail::distance::messages, by_node, "node");
    if (by_node.count() > 1) add(detail::distance::across, by_node, "node");
  }

  int ranks() const noexcept { return static_cast<int>(places_.size()); }

  // cache, node or across. Within a node, algorithms of one level also send MPI messages.
  detail::distance between(int a, int b) const {
    return detail::distance_between(places_[static_cast<std::size_t>(a)], places_[static_cast<std::size_t>(b)]);
  }
  // The latency of a short message in microseconds, and the bandwidth of a long one in GB/s. Undefined between a rank
  // and itself.
  double latency(int a, int b) const { return links_[between(a, b)].microseconds(); }
  double bandwidth(int a, int b) const { return links_[between(a, b)].gigabytes_per_second(); }

  // The levels that occur, shortest distance first.
  std::vector<level> const& levels() const noexcept { return levels_; }

  // One line for each level: "across nodes, 2 nodes of 4 ranks: latency 31.2 us, bandwidth 0.117 GB/s (from the tuning table)".
  [[gnu::cold]] std::string text() const {
    std::string out;
    for (level const& l : levels_) {
      char times[64];
      std::snprintf(times, sizeof times, "latency %.3g us, bandwidth %.3g GB/s", l.link.time.microseconds(),
                    l.link.time.gigabytes_per_second());
      out += detail::join(
          {out.empty() ? "" : "\n", detail::in_words(l.between), ", ", l.ranks, ": ", times, " (", l.link.source, ")"});
    }
    return out;
  }

 private:
  std::vector<detail::location> places_;
  detail::link_times links_;
  std::vector<level> levels_;
};

// The topology of a communicator. Sends nothing; any rank may call it.
//
//   auto const where = tutti::topology_of(comm);
//   std::printf("%g us from here to rank 3, %g GB/s\n", where.latency(comm.rank(), 3), where.bandwidth(comm.rank(), 3));
template <transport Transport>
[[gnu::cold]] topology topology_of(communicator<Transport>& comm,
                                   std::source_location where = std::source_location::current()) {
  static_assert(detail::knows_locations<Transport>,
                "threads and the ranks of tutti::mpi do not tell each other where they run; topology_of works on "
                "communicators of tutti::init() and tutti::init<tutti::hierarchical>()");
  comm.expect_usable(where);
  return {comm.engine().transport().locations(), comm.engine().tuned};
}

}  // namespace tutti
