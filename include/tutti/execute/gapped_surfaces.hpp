// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a call whose arrays may have gaps. An execution sees contiguous pieces of it in windows, each of which has
// room for a slice: a piece is gathered when it is first read, and scattered when it has been written.
#pragma once

#include <cstddef>
#include <type_traits>

#include "tutti/execute/gapped_array.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/surfaces.hpp"

namespace tutti::detail {

// The windows of a call.
struct slice_windows {
  static constexpr std::size_t shown_at_once = 2;  // the sender gathers a slice while the receiver reads the one before

  std::byte* memory = nullptr;
  std::size_t slice = 0;  // bytes of a window
  int ranks = 0;

  // `tracks`: 0 if all slices fit into slots.
  static constexpr std::size_t bytes(std::size_t slice, int tracks, int ranks) {
    return (2 + shown_at_once * static_cast<std::size_t>(tracks) * static_cast<std::size_t>(ranks)) * slice;
  }

  std::byte* read() const noexcept { return memory; }
  std::byte* written() const noexcept { return memory + slice; }
  // A slice for a peer that is too large for a slot. It stays there until the peer has read it.
  std::byte* shown(int peer, int track, std::size_t number) const noexcept {
    auto const channel = static_cast<std::size_t>(track * ranks + peer);
    return memory + (2 + channel * shown_at_once + number % shown_at_once) * slice;
  }
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
      if constexpr (reads) from_->array.gather(begin_, count(), window_);
      in_window_ = true;
    }
    return window_ + (piece_.begin() - begin_);
  }
  void skip(std::size_t n) {
    in_window_ &= n < count();
    piece_.skip(n);
  }
  // Called when the first n elements have been written.
  void written(std::size_t n) const {
    if (has_gaps()) from_->array.scatter(data(), piece_.begin(), n);
  }
  // Uses this memory as the window.
  void use_window(std::byte* window) { window_ = window; }

 private:
  static constexpr bool reads = std::is_const_v<Byte>;

  pieces<Byte, layout> piece_;
  gapped_layout const* from_ = nullptr;
  std::byte* window_ = nullptr;
  mutable std::size_t begin_ = 0;   // of the window, in the array
  mutable bool in_window_ = false;  // whether the window holds the piece
};

}  // namespace tutti::detail
