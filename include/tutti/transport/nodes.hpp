// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks are on which node: what collectives in two levels go by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/text.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Nodes are numbered in the order of their lowest ranks, and the ranks of a node in the order of ranks.
class node_map {
 public:
  // `keys`: for each rank a number that is the same on its node alone.
  [[gnu::cold]] explicit node_map(std::vector<int> const& keys) {
    std::vector<int> known;
    for (int rank = 0; rank < static_cast<int>(keys.size()); ++rank) {
      int const key = keys[static_cast<std::size_t>(rank)];
      auto const node = static_cast<std::size_t>(std::ranges::find(known, key) - known.begin());
      if (node == known.size()) {
        known.push_back(key);
        members_.emplace_back();
      }
      places_.push_back({static_cast<int>(node), static_cast<int>(members_[node].size())});
      consecutive_ = consecutive_ && node + 1 == members_.size();
      members_[node].push_back(rank);
    }
    even_ = std::ranges::all_of(members_, [&](auto const& m) { return m.size() == members_[0].size(); });
  }

  int count() const noexcept { return static_cast<int>(members_.size()); }
  int node_of(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)].node; }
  int local_rank(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)].local; }
  std::vector<int> const& members(int node) const noexcept { return members_[static_cast<std::size_t>(node)]; }
  int size(int node) const noexcept { return static_cast<int>(members(node).size()); }

  // All nodes have as many ranks.
  bool even() const noexcept { return even_; }
  // The ranks of every node follow each other.
  bool consecutive() const noexcept { return consecutive_; }

  // "2 nodes of 4 ranks", "3 nodes of 1 to 4 ranks"; or of what else ranks have in common.
  [[gnu::cold]] std::string text(std::string_view noun = "node") const {
    auto const [least, most] = std::ranges::minmax(members_, {}, [](auto const& m) { return m.size(); });
    std::string out = join({count(), " ", noun, count() == 1 ? " of " : "s of ", least.size()});
    if (!even_) out += join({" to ", most.size()});
    return out + (most.size() == 1 ? " rank" : " ranks");
  }

 private:
  struct place {
    int node, local;
  };
  std::vector<place> places_;
  std::vector<std::vector<int>> members_;
  bool even_ = true;
  bool consecutive_ = true;
};

// Whether the ranks of each node share a last-level cache.
[[gnu::cold]] inline bool share_caches(std::vector<location> const& places, node_map const& nodes) {
  for (int node = 0; node < nodes.count(); ++node)
    for (int const m : nodes.members(node)) {
      int const cache = places[static_cast<std::size_t>(m)].cache;
      if (cache == no_cache || cache != places[static_cast<std::size_t>(nodes.members(node)[0])].cache) return false;
    }
  return true;
}

}  // namespace tutti::detail
