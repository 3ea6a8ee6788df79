// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lengths of messages without memory: counts that represent elements.
#pragma once

#include <cstddef>

#include "tutti/algorithm/cursor.hpp"

namespace tutti::analyze {

// What a simulated call moves.
struct workload {
  double bytes = 0;        // of the message; if chunks are blocks, of all ranks' blocks together
  double slice_bytes = 0;  // maximal bytes of a slice; 0: messages are not cut
};

// All chunks have the same length.
struct even_chunks {
  std::size_t elements = 1;

  TUTTI_HOST_DEVICE constexpr std::size_t count(int, region const& r, int) const {
    return r.split ? elements : elements * static_cast<std::size_t>(r.what.count);
  }
  TUTTI_HOST_DEVICE constexpr std::size_t largest(int lane, region const& r) const { return count(lane, r, 0); }
  TUTTI_HOST_DEVICE constexpr std::size_t largest_chunk(int) const { return elements; }
};

static_assert(tutti::detail::message_sizes<even_chunks>);

// The length of a slice if messages are not cut.
inline constexpr std::size_t uncut = static_cast<std::size_t>(1) << 62;

}  // namespace tutti::analyze
