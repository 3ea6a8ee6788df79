// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the longest chain of a schedule's messages, fast enough for choosing an algorithm at run time.
#pragma once

#include <cstdint>

#include "tutti/algorithm/dynamic.hpp"

namespace tutti::analyze {

// The work on a chain: messages that wait for each other, messages through one port, and chunks sent and combined. Hops and
// chunks between nodes are far and counted separately; `messages` counts near and far ones together, `far_messages` those
// that are far.
struct effort {
  std::uint64_t hops = 0, messages = 0, sent = 0, combined = 0, far_hops = 0, far_sent = 0, far_messages = 0;
};
// `longest`: consecutive work of each kind, if nothing else takes time. `busiest`: the work of each kind of the rank that has the
// most of it, or of a port of a node that has more.
struct efforts {
  effort longest, busiest;
};

// Nodes of ranks, placed consecutively or round-robin. Of uneven nodes, the first is the largest, and the others share the rest. A
// node sends all far messages through one port and receives them through another, and `longest` is at least the work of these ports.
struct node_sizes {
  int count = 1;
  bool consecutive = true;
  int largest = 0;  // ranks of the largest node; 0: all nodes have the same number

  constexpr int node_of(int rank, int ranks) const {
    if (!consecutive) return rank % count;
    if (largest == 0 || count == 1) return rank / (ranks / count);
    return rank < largest ? 0 : 1 + (rank - largest) * (count - 1) / (ranks - largest);
  }
};

// Computes the result of simulate.hpp for one slice or two, without its events, observers and symmetries, which would
// add a second to the compilation of every program, and in integers, so that ranks compiled differently agree. Each
// lane has ports of its own: if lanes share ports, `longest` is an underestimate.
// `slices`: of a chunk; more than one only if the schedule is pipelined.
efforts critical_path(dynamic_schedule const& schedule, shape s, int slices, node_sizes nodes = {});

}  // namespace tutti::analyze

#if !defined(TUTTI_COMPILED)
#include "tutti/analyze/critical_path_impl.hpp"
#endif
