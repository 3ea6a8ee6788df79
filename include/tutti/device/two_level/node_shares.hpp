// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shares of the ranks of a node in a message: each exchanges its own with the ranks of other nodes that have the same.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/core/partition.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// Of a message of n elements. Shares begin at multiples of a cache line.
template <class T>
extent node_share(std::size_t n, int ranks, int rank) {
  constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
  return part(n, ranks, rank, grain);
}
template <class T>
std::span<T> node_share_of(std::span<T> message, int ranks, int rank) {
  extent const own = node_share<T>(message.size(), ranks, rank);
  return message.subspan(own.begin, own.count);
}
// The number of elements in each.
template <class T>
std::vector<std::size_t> node_shares(std::size_t n, int ranks) {
  std::vector<std::size_t> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(node_share<T>(n, ranks, rank).count);
  return out;
}

}  // namespace tutti::detail
