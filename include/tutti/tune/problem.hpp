// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs of the choice of an algorithm; the same on all ranks.
#pragma once

#include <cstddef>

#include "tutti/algorithm/registry.hpp"
#include "tutti/tune/links.hpp"

namespace tutti::detail {

// Whether the nodes of ranks are known, and the ranks of each node are consecutive.
enum class node_order : unsigned char { unknown, scattered, consecutive };

struct problem {
  collective what{};
  std::size_t bytes = 0;  // of the message; of one block if chunks are blocks
  int ranks = 1;
  bool commutative = true;
  bool ragged = false;
  bool crowded = false;       // more ranks than cores
  bool pulls = false;         // a rank can copy out of a peer's private memory (protocol pull)
  bool messages = false;      // ranks share no memory
  bool native = false;        // the transport has collectives of its own
  bool named_native = false;  // which only calls that name them may use
  bool wide = false;          // values are combined in a wider type
  bool at_once = false;       // all contributions to an element are combined in one place
  bool many = false;          // more ranks than a step may have peers
  node_order nodes = node_order::unknown;
  int node_count = 1;
  int largest_node = 0;                        // the number of ranks on it; 0: all nodes have the same number
  distance inside = distance::node;            // the largest distance between ranks of a node
  schedule_finder* schedules = find_schedule;  // among which to choose
};

}  // namespace tutti::detail
