// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a call whose arrays may have gaps. An execution sees contiguous pieces of it in windows, each of which has
// room for a slice: a piece is gathered when it is first read, and scattered when it has been written.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/execute/gapped_array.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// A part of an array that a window holds. Reading it there saves a second walk over elements that are far apart.
struct held_part {
  void const* array = nullptr;  // its first element, which tells the arrays of a call apart
  std::size_t begin = 0, end = 0;
  std::byte* window = nullptr;

  bool has(void const* of, std::size_t from, std::size_t count) const noexcept {
    return array == of && begin <= from && from + count <= end;
  }
  bool overlaps(void const* of, std::size_t from, std::size_t count) const noexcept {
    return array == of && begin < from + count && from < end;
  }
};

// The windows of a call.
class slice_windows {
 public:
  struct contents {
    held_part gathered, written;  // the last of each
  };

  slice_windows() = default;
  // `memory`: of so many bytes, aligned to a line.
  slice_windows(std::byte* memory, std::size_t slice, int rank, int ranks)
      : contents_(::new(memory) contents), windows_(memory + cache_line), slice_(slice), rank_(rank), ranks_(ranks) {
    static_assert(sizeof(contents) <= cache_line);
  }
  // `tracks`: 0 if all slices fit into slots.
  static constexpr std::size_t bytes(std::size_t slice, int tracks, int ranks) {
    return cache_line + (2 + at_once * static_cast<std::size_t>(tracks * (ranks - 1))) * slice;
  }

  contents& held() const noexcept { return *contents_; }
  std::byte* read() const noexcept { return windows_; }
  std::byte* written() const noexcept { return windows_ + slice_; }
  // A slice for a peer that is too large for a slot. It stays there until the peer has read it.
  std::byte* shown(int peer, int track, std::size_t number) const noexcept {
    auto const channel = static_cast<std::size_t>(track * (ranks_ - 1) + peer - (peer > rank_ ? 1 : 0));
    return windows_ + (2 + channel * at_once + number % at_once) * slice_;
  }

 private:
  static constexpr std::size_t at_once = 2;  // the sender gathers a slice while the receiver reads the one before

  contents* contents_ = nullptr;
  std::byte* windows_ = nullptr;
  std::size_t slice_ = 0;  // bytes of a window
  int rank_ = 0, ranks_ = 0;
};

// Where the chunks of an array lie that may have gaps: extents count its elements alone.
struct gapped_layout : layout {
  gapped_array array;  // not used if the elements are contiguous
  slice_windows windows;
  bool must_be_copied = false;  // an input that the call could overwrite before it has read it
};

// Walks through the contiguous pieces of a range, as for other layouts.
template <class Byte>
class pieces<Byte, gapped_layout> {
 public:
  pieces(Byte* data, std::size_t count) : piece_(data, count) {}
  pieces(Byte* memory, gapped_layout const& where, int lane, chunks const& what, extent range)
      : piece_(memory, where, lane, what, range),
        from_(where.array.has_gaps() ? &where : nullptr),
        window_(reads ? where.windows.read() : where.windows.written()) {}

  bool has_gaps() const { return from_ != nullptr; }
  std::size_t count() const { return piece_.count(); }
  // The piece, or its copy in the window.
  Byte* data() const {
    if (!has_gaps()) return piece_.data();
    if (!in_window_) {
      begin_ = piece_.begin();
      in_window_ = true;
      if constexpr (reads) fill_window();
      else from_->windows.held().written = {};
    }
    return window_ + (piece_.begin() - begin_);
  }
  void skip(std::size_t n) {
    in_window_ &= n < count();
    piece_.skip(n);
  }
  // Called when the first n elements have been written.
  void written(std::size_t n) const {
    if (!has_gaps()) return;
    std::size_t const begin = piece_.begin();
    std::byte* const from = data();
    from_->array.scatter(from, begin, n);
    auto& [gathered, written] = from_->windows.held();
    if (gathered.overlaps(from_->array.data(), begin, n)) gathered = {};
    written = {from_->array.data(), begin, begin + n, from};
  }
  // Copies the piece to other memory than the window, and from there.
  void gather_to(std::byte* to) const {
    auto const& [gathered, written] = from_->windows.held();
    for (held_part const* const held : {&gathered, &written})
      if (held->has(from_->array.data(), piece_.begin(), count())) {
        std::memcpy(to, held->window + (piece_.begin() - held->begin), count());
        return;
      }
    from_->array.gather(piece_.begin(), count(), to);
  }
  void scatter_from(std::byte const* from) const {
    from_->array.scatter(from, piece_.begin(), count());
    for (held_part* const held : {&from_->windows.held().gathered, &from_->windows.held().written})
      if (held->overlaps(from_->array.data(), piece_.begin(), count())) *held = {};
  }
  // Uses this memory as the window.
  void use_window(std::byte* window) { window_ = window; }

 private:
  static constexpr bool reads = std::is_const_v<Byte>;

  void fill_window() const {
    auto& [gathered, written] = from_->windows.held();
    void const* const array = from_->array.data();
    for (held_part const& held : {gathered, written}) {
      if (!held.has(array, begin_, count())) continue;
      std::byte const* const there = held.window + (begin_ - held.begin);
      if (there != window_) std::memmove(window_, there, count());
      gathered = {array, begin_, begin_ + count(), window_};
      return;
    }
    from_->array.gather(begin_, count(), window_);
    gathered = {array, begin_, begin_ + count(), window_};
  }

  pieces<Byte, layout> piece_;
  gapped_layout const* from_ = nullptr;
  std::byte* window_ = nullptr;
  mutable std::size_t begin_ = 0;   // of the window, in the array
  mutable bool in_window_ = false;  // whether the window holds the piece
};

}  // namespace tutti::detail
