// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on arrays with gaps: strided arrays, and objects like std::mdspan or an Eigen matrix. The execution reads and writes
// their elements where they are, slice by slice (execute/gapped_surfaces.hpp).
#pragma once

#include <cstddef>
#include <span>

#include "tutti/call/gapped_memory.hpp"
#include "tutti/call/noncontiguous.hpp"
#include "tutti/call/packed_arrays.hpp"

namespace tutti::detail {

// Whether an array can be described to an execution. A range cannot, because its iterators are the caller's code: they
// may throw, or compute an element from the output of the call.
template <class Array>
inline constexpr bool is_grid = false;
template <class T, std::size_t MaxIndices>
inline constexpr bool is_grid<grid<T, MaxIndices>> = MaxIndices <= gapped_array::max_indices;
template <class Array>
inline constexpr bool is_span = false;
template <class T, std::size_t Extent>
inline constexpr bool is_span<std::span<T, Extent>> = true;

template <class In, class Out>
concept described_arrays =
    (is_grid<In> || is_grid<Out>) && (is_grid<In> || is_span<In>) && (is_grid<Out> || is_span<Out>);

template <class T, std::size_t Extent>
gapped_array described(std::span<T, Extent> array) {
  return {const_cast<std::byte*>(reinterpret_cast<std::byte const*>(array.data())), array.size_bytes()};
}
template <class T, std::size_t MaxIndices>
gapped_array described(grid<T, MaxIndices> const& array) {
  return array.described();
}

template <class T, std::size_t Extent>
bool has_gaps(std::span<T, Extent>) {
  return false;
}
template <class T, std::size_t MaxIndices>
bool has_gaps(grid<T, MaxIndices> const& array) {
  return array.has_gaps();
}

// The elements if there are no gaps; else their number, and the first.
template <class Array>
auto first_elements(Array const& array) {
  return std::span(array.data(), array.size());
}

// The arrays of a call of which at least one is a grid.
template <collective C, class In, class Out>
class gapped_arrays {
  using element = typename Out::value_type;

 public:
  static constexpr bool are_compared = false;  // by their pointers, to find overlaps
  template <class Memory>
  using memory_of = gapped_memory<Memory>;

  gapped_arrays(In const& in, Out const& out, int rank, int root)
      : input_{described(in), row_of(C).input.at(rank == root) != holding::none},
        output_{described(out), row_of(C).output.at(rank == root) != holding::none},
        in_(first_elements(in)),
        out_(first_elements(out)) {}

  std::span<element const> input() const { return in_; }
  std::span<element> output() const { return out_; }
  nothing_to_pack packing() const { return {}; }

  template <class Memory>
  void describe(gapped_memory<Memory>& to) const {
    if (input_.used || has_one_array<C>) to.input.elements = input_.elements;
    if (output_.used || has_one_array<C>) to.output.elements = output_.elements;
    to.input.used = input_.used;
    to.output.used = output_.used;
    if (has_one_array<C> || !input_.used || !output_.used) return;
    to.in_place = !by_block(C) && are_same(input_.elements, output_.elements);
    to.overlap = !to.in_place && may_overlap(input_.elements, output_.elements);
  }

 private:
  brought_array input_, output_;
  std::span<element const> in_;
  std::span<element> out_;
};

template <collective C, class Comm, class In, class Out>
  requires described_arrays<In, Out>
gapped_arrays<C, In, Out> arrays_for(Comm& comm, In const& in, Out const& out, int root, bool) {
  return {in, out, comm.rank(), root};
}

}  // namespace tutti::detail
