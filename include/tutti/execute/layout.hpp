// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps the chunks of a schedule to the elements of a buffer.
#pragma once

#include <cstddef>

#include "tutti/algorithm/step.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/partition.hpp"

namespace tutti::detail {

// Where the chunks of a message lie, in elements from its start.
class layout {
 public:
  layout() = default;

  // One array: lanes, and chunks in them, are parts of it.
  TUTTI_HOST_DEVICE static layout whole(std::size_t count, int lanes, int chunks, std::size_t grain) {
    layout out;
    out.become_whole(count, lanes, chunks, grain);
    return out;
  }
  // The same for a default layout, in place: a copy would have to wait for the stores that have just been made.
  TUTTI_HOST_DEVICE void become_whole(std::size_t count, int lanes, int chunks, std::size_t grain) {
    count_ = count, lanes_ = lanes, chunks_ = chunks, grain_ = grain;
  }
  // A block of `count` elements for each rank.
  TUTTI_HOST_DEVICE static layout blocks(std::size_t count, int ranks) {
    layout out;
    out.kind_ = kinds::blocks, out.count_ = count, out.chunks_ = ranks;
    return out;
  }
  // A block for each rank, each of its own size and place.
  TUTTI_HOST_DEVICE static layout table(std::size_t const* counts, std::size_t const* offsets, int ranks) {
    layout out;
    out.kind_ = kinds::table, out.counts_ = counts, out.offsets_ = offsets, out.chunks_ = ranks;
    return out;
  }
  // The same for a buffer that holds only block `chunk`.
  TUTTI_HOST_DEVICE layout only(int chunk) const {
    layout out = *this;
    out.origin_ = at(0, chunk).begin;
    out.only_ = chunk;
    return out;
  }

  // The same in units of which `unit` make an element.
  layout times(std::size_t unit) const {
    layout out = *this;
    out.count_ *= unit, out.grain_ *= unit, out.origin_ *= unit, out.unit_ *= unit;
    return out;
  }

  TUTTI_HOST_DEVICE int parts() const { return chunks_; }
  TUTTI_HOST_DEVICE extent at(int lane, int chunk) const {
    auto const c = static_cast<std::size_t>(chunk);
    switch (kind_) {
      case kinds::blocks: return {c * count_ - origin_, count_};
      case kinds::table: return {offsets_[c] * unit_ - origin_, counts_[c] * unit_};
      case kinds::whole: break;
    }
    extent const mine = part(count_, lanes_, lane, grain_);
    extent const there = part(mine.count, chunks_, chunk, grain_);
    return {mine.begin + there.begin, there.count};
  }
  // The number of elements in a message of these chunks.
  TUTTI_HOST_DEVICE std::size_t count(int lane, chunks const& what) const {
    std::size_t sum = 0;
    for (int k = 0; k < what.count; ++k) sum += at(lane, what.at(k, chunks_)).count;
    return sum;
  }
  // Calls f(extent) for each run of elements in the buffer.
  template <class F>
  void for_each_extent(F&& f) const {
    if (kind_ == kinds::whole) return f(extent{0, count_});
    if (only_ >= 0) return f(at(0, only_));
    for (int c = 0; c < chunks_; ++c) f(at(0, c));
  }
  // The end of the message in the buffer.
  TUTTI_HOST_DEVICE std::size_t end() const {
    if (kind_ == kinds::whole) return count_;
    if (only_ >= 0) return at(0, only_).end();
    std::size_t last = 0;
    for (int c = 0; c < chunks_; ++c) {
      extent const e = at(0, c);
      if (e.count > 0 && e.end() > last) last = e.end();
    }
    return last;
  }

 private:
  enum class kinds { whole, blocks, table } kind_ = kinds::whole;
  int lanes_ = 1;
  int chunks_ = 1;
  std::size_t count_ = 0;
  std::size_t grain_ = 1;
  std::size_t origin_ = 0;
  std::size_t unit_ = 1;  // by which entries of a table are multiplied
  int only_ = -1;
  std::size_t const* counts_ = nullptr;
  std::size_t const* offsets_ = nullptr;
};

}  // namespace tutti::detail
