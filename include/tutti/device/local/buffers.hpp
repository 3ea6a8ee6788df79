// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers that a program passes for all virtual ranks, and their checks, which follow from the table of collectives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/team.hpp"

namespace tutti::detail {

// The only buffer of a call that only the root passes.
template <class Buffer>
class roots_buffer {
 public:
  explicit roots_buffer(Buffer& only) : only_{&only} {}
  std::size_t size() const { return 1; }
  Buffer& operator[](std::size_t) const { return *only_; }

 private:
  Buffer* only_;
};

// Stands for a communicator in the checks.
struct virtual_rank {
  int own, ranks;

  int rank() const { return own; }
  int size() const { return ranks; }
};

// The arrays of all ranks, or that of the root alone; n elements of the array, or of the longest block.
template <class In, class Out = In>
struct local_arrays {
  std::vector<In const*> in;
  std::vector<Out*> out;
  std::size_t n;
  int root = 0;

  // Copies the arrays to where each rank has its own.
  template <class Work>
  void put_into(Work& work) const {
    std::ranges::copy(in, work.in + (in.size() == 1 ? root : 0));
    std::ranges::copy(out, work.out + (out.size() == 1 ? root : 0));
  }
};

// Where the blocks of all ranks begin in elements, and how long they are.
template <class Blocks>
concept blocks_of_ranks = requires(Blocks const& blocks, int rank) {
  blocks.begin(rank);
  blocks.count(rank);
};

// Elements of the buffer `s` of a rank: its block, the blocks of all, or the array.
template <collective C, blocks_of_ranks Blocks>
std::size_t size_of_buffer(side s, int rank, int ranks, Blocks const& blocks) {
  bool const all = s == side::input ? deals(C) : collects(C);
  return all ? blocks.begin(ranks - 1) + blocks.count(ranks - 1) : blocks.count(rank);
}

// The addresses of the buffers `s`, of which rank r's must have size_of(r) elements. Each device may access all of them.
template <collective C, class Element, device D, class Buffers, class SizeOf>
std::vector<Element*> addresses(device_team<D> const& team, side s, Buffers& buffers, int ranks, int root,
                                SizeOf const& size_of, std::source_location where) {
  static_assert(std::is_const_v<Element> || !std::is_const_v<std::remove_pointer_t<decltype(device_data(buffers[0]))>>,
                "the output is const; pass arrays of device memory that can be written to");
  holdings const held = s == side::input ? row_of(C).input : row_of(C).output;
  int const expected = held.others == holding::none ? 1 : ranks;
  auto const passed = static_cast<std::size_t>(buffers.size());
  if (passed != static_cast<std::size_t>(expected))
    refuse_call(
        join({name(C), " among ", ranks, " ranks takes ", expected, " ", name(s), " buffers, but got ", passed}),
        "pass one for each rank", where);
  std::vector<Element*> out;
  for (int i = 0; i < expected; ++i) {
    auto& buffer = buffers[static_cast<std::size_t>(i)];
    int const r = expected == 1 ? root : i;
    std::size_t const size = size_of(r);
    if (buffer.size() != size) expect_size(virtual_rank{r, ranks}, name_of_buffer(C, s), buffer.size(), size, where);
    out.push_back(reinterpret_cast<Element*>(device_data(buffer)));
    if (out.back() == nullptr && size > 0) refuse_null(r, name_of_buffer(C, s), size, where);
    expect_accessible<C>(team.all(), s, r, out.back(), size, where);
  }
  return out;
}

// Each rank's input and output are the same place, where jobs can work in place, or do not overlap, because the threads that
// read and write blocks do not wait for each other. The program's elements have `unit` elements In.
template <collective C, class In, class Out, blocks_of_ranks Blocks>
void expect_apart(local_arrays<In, Out> const& arrays, int ranks, Blocks const& blocks, std::size_t unit,
                  std::source_location where) {
  using jobs = local_jobs<C>;
  for (int rank = 0; rank < ranks; ++rank) {
    // A block in the buffer of the root can be in place for the root alone.
    bool const has_in_place = std::is_same_v<In, Out> && jobs::in_place &&
                              (rank == arrays.root || !(jobs::to_root || (jobs::from_root && jobs::dealt)));
    auto const r = static_cast<std::size_t>(rank);
    In const* const in = arrays.in[arrays.in.size() == 1 ? 0 : r];
    Out const* const out = arrays.out[arrays.out.size() == 1 ? 0 : r];
    std::size_t const own = blocks.begin(rank) * unit;
    if (has_in_place && is_in_place<C>(in, own, out, own)) continue;
    std::size_t const in_size = size_of_buffer<C>(side::input, rank, ranks, blocks) * unit;
    std::size_t const out_size = size_of_buffer<C>(side::output, rank, ranks, blocks) * unit;
    if (overlap(in, in_size * sizeof(In), out, out_size * sizeof(Out)))
      refuse_overlap(rank, rank == arrays.root, C, has_in_place, where);
  }
}

// The checked arrays of a call. Throws error: bad_argument.
template <collective C, class In, class Out, device D, class InBuffers, class OutBuffers, blocks_of_ranks Blocks>
local_arrays<In, Out> check_local_buffers(device_team<D> const& team, InBuffers& in, OutBuffers& out, int ranks,
                                          int root, Blocks const& blocks, std::size_t unit,
                                          std::source_location where) {
  expect_root(virtual_rank{0, ranks}, root, where);
  auto const sizes_of = [&](side s) { return [&, s](int r) { return size_of_buffer<C>(s, r, ranks, blocks); }; };
  local_arrays<In, Out> arrays{
      .in = addresses<C, In const>(team, side::input, in, ranks, root, sizes_of(side::input), where),
      .out = addresses<C, Out>(team, side::output, out, ranks, root, sizes_of(side::output), where),
      .n = 0,
      .root = root};
  for (int r = 0; r < ranks; ++r) arrays.n = std::max(arrays.n, blocks.count(r) * unit);
  expect_apart<C>(arrays, ranks, blocks, unit, where);
  return arrays;
}

// Blocks of one size, or one array, as long as the buffers of the first rank say.
template <collective C, class InBuffers, class OutBuffers>
even_blocks even_blocks_of(InBuffers& in, OutBuffers& out, int ranks, std::source_location where) {
  auto const size_of_first = [](auto& buffers) {
    return buffers.size() > 0 ? static_cast<std::size_t>(buffers[0].size()) : 0;
  };
  if constexpr (deals(C) && collects(C)) {
    std::size_t const all = size_of_first(in), p = static_cast<std::size_t>(ranks);
    if (all % p != 0) refuse_unequal_blocks(0, ranks, C, all, where);
    return even_blocks{all / p};
  } else {
    std::size_t const count = deals(C) ? size_of_first(out) : size_of_first(in);
    if constexpr (by_block(C)) {
      using T = std::remove_cvref_t<decltype(*device_data(in[0]))>;
      std::size_t whole = 0;
      if (__builtin_mul_overflow(count, static_cast<std::size_t>(ranks), &whole) || !is_possible_size<T>(whole))
        refuse_impossible_blocks(0, ranks, C, count, where);
    }
    return even_blocks{count};
  }
}

}  // namespace tutti::detail
