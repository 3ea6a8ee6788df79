// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The circumstances under which a schedule is proved, and the lengths of messages that follow from them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/contract.hpp"

namespace tutti::analyze {

struct circumstances {
  bool in_place = false;   // what a rank has in its input and in its output is the same memory
  bool direct = false;     // a message is a reference to memory, which the receiver reads when it consumes the message
  int slices = 1;          // of a chunk
  int credits = 1;         // slices that a channel holds before its sender must wait
  int slice = 1;           // elements of a slice; the last slice of a chunk has one
  bool uneven = false;     // chunks differ in length, and some are empty
  bool announces = false;  // a message without elements is sent too

  constexpr int chunk() const { return (slices - 1) * slice + 1; }
};

// The lengths of one rank's messages. Uneven chunks have any length up to that of an even one.
class symbolic_sizes {
 public:
  symbolic_sizes(collective what, int rank, int chunks, circumstances const& how)
      : what_(what), rank_(rank), chunks_(chunks), how_(how) {}

  std::size_t at(space where, int lane, int chunk) const {
    if (!how_.uneven) return static_cast<std::size_t>(how_.chunk());
    if (!renumbers(what_)) return length(lane, chunk);
    return where == space::input ? length(rank_, chunk) : length(chunk, rank_);
  }
  std::size_t count(int lane, region const& r, int k) const {
    if (r.split) return at(r.where, lane, r.what.at(k, chunks_));
    if (!how_.uneven) return static_cast<std::size_t>(r.what.count * how_.chunk());
    std::size_t sum = 0;
    for (int i = 0; i < r.what.count; ++i) sum += at(r.where, lane, r.what.at(i, chunks_));
    return sum;
  }
  std::size_t largest(int lane, region const& r) const {
    if (!how_.uneven) return r.what.count == 0 ? 0 : count(lane, r, 0);
    std::size_t most = 0;
    for (int k = 0; k < (r.split ? r.what.count : 1); ++k) most = std::max(most, count(lane, r, k));
    return most;
  }
  std::size_t largest_chunk(int lane) const { return largest(lane, {space::scratch, {0, chunks_}, true}); }

 private:
  // In place, the block that a rank sends to a peer and the block that it receives from it have the same length.
  std::size_t length(int a, int b) const {
    return static_cast<std::size_t>(((how_.in_place ? a : 2 * a) + b + 1) % (how_.chunk() + 1));
  }

  collective what_;
  int rank_, chunks_;
  circumstances how_;
};

static_assert(tutti::detail::message_sizes<symbolic_sizes>);

}  // namespace tutti::analyze
