// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a rank brings to a call, and the places of a step's regions in it.
#pragma once

#include <cstddef>

#include "tutti/algorithm/step.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/execute/layout.hpp"

namespace tutti::detail {

// Walks through the contiguous pieces of a range of a message.
template <class T, class Layout>
class pieces {
 public:
  // A single piece.
  TUTTI_HOST_DEVICE pieces(T* data, std::size_t count) : memory_(data), count_(count) {}
  // The range of the message that these chunks of a lane make.
  TUTTI_HOST_DEVICE pieces(T* memory, Layout const& where, int lane, chunks const& what, extent range)
      : memory_(memory), where_(&where), lane_(lane), what_(what), before_(range.begin), left_(range.count) {
    find();
  }

  TUTTI_HOST_DEVICE T* data() const { return memory_ + begin_; }
  TUTTI_HOST_DEVICE std::size_t begin() const { return begin_; }  // elements from the start of the memory
  TUTTI_HOST_DEVICE std::size_t count() const { return count_; }  // 0 at the end

  // Goes on by n <= count() elements.
  TUTTI_HOST_DEVICE void skip(std::size_t n) {
    begin_ += n;
    count_ -= n;
    if (count_ == 0) find();
  }
  TUTTI_HOST_DEVICE static constexpr bool has_gaps() { return false; }
  // Called when the first n elements have been written.
  TUTTI_HOST_DEVICE void written(std::size_t) const {}

 private:
  // The next piece: chunks that follow each other in memory are one.
  TUTTI_HOST_DEVICE void find() {
    for (; left_ > 0 && next_ < what_.count; ++next_) {
      extent const chunk = where_->at(lane_, what_.at(next_, where_->parts()));
      if (before_ >= chunk.count) {
        before_ -= chunk.count;
        continue;
      }
      std::size_t const begin = chunk.begin + before_, rest = chunk.count - before_;
      if (count_ == 0) begin_ = begin;
      else if (begin != begin_ + count_) return;
      std::size_t const n = rest < left_ ? rest : left_;
      count_ += n;
      left_ -= n;
      before_ = 0;
    }
  }

  T* memory_;
  std::size_t begin_ = 0, count_ = 0;  // the current piece
  Layout const* where_ = nullptr;
  int lane_ = 0, next_ = 0;  // the next chunk is number next_ of what_
  chunks what_{};
  std::size_t before_ = 0, left_ = 0;  // elements of the message before the range, and of the range after the piece
};

// One space of a rank: memory and its layout.
template <class T, class Layout = layout>
struct surface {
  T* data = nullptr;
  Layout where{};
  std::size_t slice = 0;  // where not 0, each lane has room for only this many elements, which its slices share

  template <class As = T>
  TUTTI_HOST_DEVICE detail::pieces<As, Layout> pieces(int lane, chunks const& what, extent range) const {
    if (slice != 0) return {data + static_cast<std::size_t>(lane) * slice, range.count};
    return {data, where, lane, what, range};
  }
};

// All spaces of a rank.
template <class T, class Layout = layout>
struct surfaces {
  surface<T const, Layout> input;
  surface<T, Layout> output;
  surface<T, Layout> scratch;
  bool in_place = false;  // input and output are the same memory where this rank has both

  // A region that is only passed on has the layout of the scratch memory.
  TUTTI_HOST_DEVICE Layout const& layout_of(space where) const noexcept {
    if (where == space::input) return input.where;
    if (where == space::output) return output.where;
    return scratch.where;
  }

  // The chunks of peer k's message, and its elements.
  TUTTI_HOST_DEVICE chunks share(region const& r, int k) const noexcept {
    return r.split ? chunks{r.what.at(k, layout_of(r.where).parts())} : r.what;
  }
  TUTTI_HOST_DEVICE std::size_t count(int lane, region const& r, int k) const noexcept {
    return layout_of(r.where).count(lane, share(r, k));
  }
  // The length of the longest message.
  TUTTI_HOST_DEVICE std::size_t largest(int lane, region const& r) const noexcept {
    if (!r.split) return count(lane, r, 0);
    std::size_t most = 0;
    for (int k = 0; k < r.what.count; ++k)
      if (std::size_t const n = count(lane, r, k); n > most) most = n;
    return most;
  }

  TUTTI_HOST_DEVICE std::size_t largest_chunk(int lane) const noexcept {
    return largest(lane, {space::scratch, {0, scratch.where.parts()}, true});
  }

  // The pieces of a range of the message that these chunks of a region make.
  TUTTI_HOST_DEVICE detail::pieces<T const, Layout> pieces(int lane, region const& r, chunks const& what,
                                                           extent range) const {
    if (r.where == space::input) return input.pieces(lane, what, range);
    return (r.where == space::output ? output : scratch).template pieces<T const>(lane, what, range);
  }
  TUTTI_HOST_DEVICE detail::pieces<T, Layout> writable_pieces(int lane, region const& r, chunks const& what,
                                                              extent range) const {
    return (r.where == space::output ? output : scratch).pieces(lane, what, range);
  }
};

}  // namespace tutti::detail
