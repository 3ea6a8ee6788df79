// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One end of a message between two ranks, or a probe for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tutti/algorithm/concept.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti {

// A receive may name these instead of a rank and a tag. A send or a receive that names no_rank does nothing. Both ranks are far from
// those that a program computes, so that a neighbour beyond the edge of a grid, such as -1, is refused.
inline constexpr int any_source = std::numeric_limits<int>::min();
inline constexpr int any_tag = -1;
inline constexpr int no_rank = any_source + 1;

namespace detail {

static_assert(message_track == max_tracks);

// It must not move in memory until it has ended. The order of type, tag and peer differs from that of message heads and records:
// otherwise compilers copy two of them by one load, which waits for the two stores before it, queued behind those of the last
// message.
struct transfer {
  enum kinds : std::uint8_t { send, receive, probe } what = send;
  bool blocking = false;  // the caller waits for it, so this rank polls until it has ended
  bool ended = false;
  std::uint32_t type = 0;  // type_id
  int tag = 0;
  int peer = no_rank;
  std::string_view type_name{};
  std::size_t element_bytes = 1;
  std::byte const* from = nullptr;  // of a send
  std::byte* to = nullptr;          // of a receive
  std::size_t bytes = 0;            // of a receive: the capacity
  std::uint64_t number = 0;         // in the order in which this rank started them

  // Data in memory of a device do not pass through the messenger: a message names their place at its sender, and the caller of
  // the receive fetches them.
  std::uint64_t place = 0;       // of a send, or of the message that a receive has got; 0: in memory of the host
  std::size_t device_bytes = 0;  // of a receive: the capacity for such data

  // The message that a receive has got, or a probe has found.
  int source = no_rank;
  int source_tag = any_tag;
  std::size_t got = 0;

  // -- For the messenger.
  std::uint64_t id = 0;       // of a rendezvous, at this rank
  std::uint64_t partner = 0;  // of a rendezvous, at the peer
  std::uint64_t address = 0;  // of the payload at the sender, if the receiver could read it there
  std::size_t moved = 0;      // bytes sent or received in slices
  std::uint64_t last = 0;     // number of its last message in the channel
};

}  // namespace detail

}  // namespace tutti
