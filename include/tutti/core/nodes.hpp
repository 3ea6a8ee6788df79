// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps ranks to nodes, for collectives in two levels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Nodes are numbered in the order of their lowest ranks. Within a node, ranks keep their order.
class node_map {
 public:
  // `keys`: a number for each rank, equal for two ranks if they are on the same node.
  [[gnu::cold]] explicit node_map(std::vector<int> const& keys);

  int count() const noexcept { return static_cast<int>(members_.size()); }
  int node_of(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)].node; }
  int local_rank(int rank) const noexcept { return places_[static_cast<std::size_t>(rank)].local; }
  std::vector<int> const& members(int node) const noexcept { return members_[static_cast<std::size_t>(node)]; }
  int size(int node) const noexcept { return static_cast<int>(members(node).size()); }

  // The number of ranks on the largest node.
  int largest() const noexcept;
  // Whether all nodes have the same number of ranks.
  bool even() const noexcept { return even_; }
  // Whether the ranks of each node are consecutive.
  bool consecutive() const noexcept { return consecutive_; }

  // "2 nodes of 4 ranks", "3 nodes of 1 to 4 ranks"; `noun` names groups of another kind.
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

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/nodes_impl.hpp"
#endif
