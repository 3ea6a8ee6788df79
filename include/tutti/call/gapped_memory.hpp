// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a call of which at least one array has gaps.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "tutti/call/call.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/execute/gapped_surfaces.hpp"

namespace tutti::detail {

// An array that a rank brings to a call, with gaps or without.
struct brought_array {
  gapped_array elements;
  bool used = false;  // whether the call reads the input, or writes the output, of this rank
};

// `Memory` in one of its three shapes. An array with gaps is at no pointer; `in` and `out` then only show that there is one.
template <class Memory>
struct gapped_memory : Memory {
  explicit gapped_memory(Memory&& contiguous) : Memory(std::move(contiguous)) {}

  brought_array input, output;
  bool overlap = false;  // the call could overwrite an input before it has read it

  template <class U>
  void lay_out(surfaces<U, gapped_layout>& s, request const& r, int rank, int ranks) const {
    surfaces<U> plain{.input = {}, .output = {}, .scratch = {}};
    Memory::lay_out(plain, r, rank, ranks);
    s.input = {plain.input.data, {plain.input.where, input.elements, {}, overlap}};
    s.output = {plain.output.data, {plain.output.where, output.elements, {}}};
    s.scratch = {plain.scratch.data, {plain.scratch.where, {}, {}}};
    s.in_place = plain.in_place;
  }
  template <class Use>
  void list_buffers(Use& use, request const&, int, int) const {
    auto const reads = [&](std::byte* run, std::size_t bytes) { use.reads(run, bytes); };
    auto const writes = [&](std::byte* run, std::size_t bytes) { use.writes(run, bytes); };
    if constexpr (Memory::ragged) {
      for_each_run(input, this->given, reads);
      for_each_run(output, this->got, writes);
    } else {
      if (input.used) input.elements.for_each_run(0, input.elements.bytes(), reads);
      if (output.used) output.elements.for_each_run(0, output.elements.bytes(), writes);
    }
  }

  // -- For what takes contiguous arrays alone: copies of those that have gaps, in `room`.

  std::size_t packed_bytes() const { return input_bytes() + output_bytes(); }
  // `keeps`: the call may leave parts of the output as they were.
  Memory pack(std::byte* room, bool keeps) const {
    std::byte* const packed_out = output.elements.has_gaps() ? room : nullptr;
    std::byte* const packed_in = !input.elements.has_gaps() ? nullptr : this->in_place ? room : room + output_bytes();
    if (packed_out != nullptr && output.used && keeps) output.elements.gather(0, output.elements.bytes(), packed_out);
    if (packed_in != nullptr && input.used) input.elements.gather(0, input.elements.bytes(), packed_in);
    return with_pointers(packed_in, packed_out);
  }
  void unpack(std::byte const* room) const {
    if (output.used && output.elements.has_gaps()) output.elements.scatter(room, 0, output.elements.bytes());
  }

 private:
  // Of the blocks alone, which need not make up the whole array.
  template <class F>
  static void for_each_run(brought_array const& array, layout const& blocks, F&& f) {
    constexpr std::size_t unit = sizeof(*Memory::in);
    if (array.used)
      blocks.for_each_extent([&](extent e) { array.elements.for_each_run(e.begin * unit, e.count * unit, f); });
  }
  static std::size_t room_for(gapped_array const& array) {
    return array.has_gaps() ? (array.bytes() + cache_line - 1) / cache_line * cache_line : 0;
  }
  std::size_t output_bytes() const { return room_for(output.elements); }
  std::size_t input_bytes() const { return this->in_place ? 0 : room_for(input.elements); }

  // Memory of this shape with other pointers where they are not null.
  Memory with_pointers(std::byte* other_in, std::byte* other_out) const {
    Memory const& own = *this;
    auto const from = other_in != nullptr ? reinterpret_cast<decltype(own.in)>(other_in) : own.in;
    auto const to = other_out != nullptr ? reinterpret_cast<decltype(own.out)>(other_out) : own.out;
    if constexpr (Memory::ragged) return {from, to, own.in_place, own.given, own.got, own.sizes, counts_and_offsets()};
    else return {from, to, own.in_place};
  }
};

template <class Memory>
using layout_for = std::conditional_t<is_a<Memory, gapped_memory>, gapped_layout, layout>;

}  // namespace tutti::detail
