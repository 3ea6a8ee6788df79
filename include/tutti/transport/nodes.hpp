// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks are on which node: what collectives in two levels go by.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/transport/system/caches.hpp"

namespace tutti::detail {

// Nodes are numbered in the order of their lowest ranks, and the ranks of a node in the order of ranks.
class node_map {
 public:
  // `keys`: for each rank a number that is the same on its node alone.
  [[gnu::cold]] explicit node_map(std::vector<int> const& keys);

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
  [[gnu::cold]] std::string text(std::string_view noun = "node") const;

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
[[gnu::cold]] bool share_caches(std::vector<location> const& places, node_map const& nodes);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/nodes_impl.hpp"
#endif
