// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks with blocks of uneven sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/call/count_list.hpp"
#include "tutti/device/local/buffers.hpp"
#include "tutti/device/local/launch.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {
namespace detail {

[[noreturn, gnu::cold]] inline void refuse_impossible_counts(collective c, std::source_location where) {
  refuse_call(join({"the counts of ", name(c), "_v add up to more elements than memory can hold"}),
              "check the counts, of which one may have been negative", where);
}
// Whether an array can have as many elements of T as all blocks together. Throws error: bad_argument.
template <class T>
void expect_possible_counts(collective c, std::span<std::size_t const> counts, std::source_location where) {
  std::size_t whole = 0;
  for (std::size_t const n : counts)
    if (__builtin_add_overflow(whole, n, &whole) || !is_possible_size<T>(whole)) refuse_impossible_counts(c, where);
}

// Blocks of these sizes, one after another, in units of `unit`.
inline ragged_blocks uneven_blocks(std::span<std::size_t const> counts, std::size_t unit = 1) {
  ragged_blocks out{};
  for (std::size_t q = 0; q < counts.size(); ++q) out.begins[q + 1] = out.begins[q] + counts[q] * unit;
  return out;
}

// Whether there are as many counts as the ranks need, and the call leaves the choice to tutti: the _v forms have jobs alone.
template <device D, class Reach>
void expect_uneven(cuda_local<D, Reach> const& ranks, std::size_t given, std::size_t needed,
                   device_options<D> const& how, std::source_location where) {
  if (given != needed)
    refuse_call(join({"the call needs ", needed, " counts for ", ranks.size(), " ranks, but got ", given}),
                "pass the size of each block", where);
  if (how.algorithm != algorithm_id::automatic || how.protocol != protocol::automatic)
    refuse_call("a call with blocks of uneven sizes among virtual ranks cannot name an algorithm or a protocol",
                "leave both automatic", where);
}

template <collective C, class T, class In, class Out, device D, class Reach, class How>
void call_uneven(cuda_local<D, Reach> const& ranks, In& in, Out& out, int root, std::span<std::size_t const> counts,
                 std::size_t unit, How const& how, device_options<D> const& options, std::source_location where) {
  expect_uneven(ranks, counts.size(), static_cast<std::size_t>(ranks.size()), options, where);
  expect_possible_counts<device_element<In>>(C, counts, where);
  auto const arrays =
      check_local_buffers<C, T, T>(ranks.team(), in, out, ranks.size(), root, uneven_blocks(counts), unit, where);
  shown_range const shown = show_launch<C>(ranks, arrays.n * sizeof(T));
  launch_jobs<C>(ranks, arrays, uneven_blocks(counts, unit), how, options.stream);
}

template <collective C, device D, class Reach, class In, class Out>
void move_uneven(cuda_local<D, Reach> const& ranks, In& in, Out& out, int root, std::span<std::size_t const> counts,
                 device_options<D> const& options, std::source_location where) {
  using T = device_element<In>;
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  call_uneven<C, word_of<T>>(ranks, in, out, root, counts, words_in<T>, word_moves, options, where);
}

// The arrays of an all_to_all_v, of which rank r sends sent[r] elements and receives received[r].
template <class Word, device D, class In, class Out>
local_arrays<Word> check_uneven_exchange(device_team<D> const& team, In& in, std::span<std::size_t const> sent,
                                         Out& out, std::span<std::size_t const> received, std::size_t unit,
                                         std::source_location where) {
  constexpr collective what = collective::all_to_all;
  int const ranks = static_cast<int>(sent.size());
  auto const sizes_are = [](std::span<std::size_t const> sizes) {
    return [sizes](int rank) { return sizes[static_cast<std::size_t>(rank)]; };
  };
  local_arrays<Word> arrays{addresses<what, Word const>(team, side::input, in, ranks, 0, sizes_are(sent), where),
                            addresses<what, Word>(team, side::output, out, ranks, 0, sizes_are(received), where), 0};
  for (std::size_t r = 0; r < sent.size(); ++r)
    if (overlap(arrays.in[r], sent[r] * unit * sizeof(Word), arrays.out[r], received[r] * unit * sizeof(Word)))
      refuse_overlap(static_cast<int>(r), r == 0, what, false, where);
  return arrays;
}

}  // namespace detail

// The block of rank r has counts[r] elements; a buffer with the blocks of all ranks has them one after another, without gaps.
// All else as without _v. One launch; of the options, only the stream may be set. Throws error: bad_argument before anything
// is launched; system.
//
//   tutti::all_gather_v(ranks, shards, weights, counts, {.stream = stream});
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out>
void all_gather_v(cuda_local<D, Reach> const& ranks, In&& in, Out&& out,
                  detail::count_list<collective::all_gather> const& counts, device_options<D> const& options = {},
                  std::source_location where = std::source_location::current()) {
  detail::move_uneven<collective::all_gather>(ranks, in, out, 0, counts, options, where);
}

template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffer Out>
void gather_v(cuda_local<D, Reach> const& ranks, In&& in, Out&& out,
              detail::count_list<collective::gather> const& counts, int root, device_options<D> const& options = {},
              std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(out);
  detail::move_uneven<collective::gather>(ranks, in, of_root, root, counts, options, where);
}
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffer Out>
void gather_v(cuda_local<D, Reach> const& ranks, In&& in, Out&& out,
              detail::count_list<collective::gather> const& counts, device_options<D> const& options = {},
              std::source_location where = std::source_location::current()) {
  gather_v(ranks, in, out, counts, 0, options, where);
}

template <detail::device D, class Reach, detail::device_buffer In, detail::device_buffers Out>
void scatter_v(cuda_local<D, Reach> const& ranks, In&& in, detail::count_list<collective::scatter> const& counts,
               Out&& out, int root, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(in);
  detail::move_uneven<collective::scatter>(ranks, of_root, out, root, counts, options, where);
}
template <detail::device D, class Reach, detail::device_buffer In, detail::device_buffers Out>
void scatter_v(cuda_local<D, Reach> const& ranks, In&& in, detail::count_list<collective::scatter> const& counts,
               Out&& out, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  scatter_v(ranks, in, counts, out, 0, options, where);
}

template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out, class Op = sum>
void reduce_scatter_v(cuda_local<D, Reach> const& ranks, In&& in, Out&& out,
                      detail::count_list<collective::reduce_scatter> const& counts, Op const& op = {},
                      device_options<D> const& options = {},
                      std::source_location where = std::source_location::current()) {
  detail::expect_usable_on_devices<Op, detail::device_element<In>>();
  using T = detail::device_form<Op, detail::device_element<In>>;
  static_assert(std::is_same_v<detail::device_element<In>, detail::device_element<Out>>,
                "inputs and outputs have different element types");
  detail::call_uneven<collective::reduce_scatter, T>(ranks, in, out, 0, counts, 1,
                                                     detail::in_stages<T>(op, ranks.size()), options, where);
}

// counts[r * size + q] elements go from rank r to rank q. One launch for each rank.
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out>
void all_to_all_v(cuda_local<D, Reach> const& ranks, In&& in, detail::count_list<collective::all_to_all> const& counts,
                  Out&& out, device_options<D> const& options = {},
                  std::source_location where = std::source_location::current()) {
  using T = detail::device_element<In>;
  static_assert(std::is_same_v<T, detail::device_element<Out>>, "inputs and outputs have different element types");
  using word = detail::word_of<T>;
  constexpr std::size_t unit = detail::words_in<T>;
  auto const p = static_cast<std::size_t>(ranks.size());
  detail::expect_uneven(ranks, counts.size(), p * p, options, where);
  detail::expect_possible_counts<T>(collective::all_to_all, counts, where);
  std::vector<std::size_t> sent(p), received(p);
  for (std::size_t i = 0; i < counts.size(); ++i) sent[i / p] += counts[i], received[i % p] += counts[i];
  auto arrays = detail::check_uneven_exchange<word>(ranks.team(), in, sent, out, received, unit, where);
  for (std::size_t r = 0; r < p; ++r) {
    // The blocks of one rank are scattered, each to the place behind those of the ranks before.
    auto const row = counts.subspan(r * p, p);
    detail::local_arrays<word> const its{{arrays.in[r]}, arrays.out, *std::ranges::max_element(row) * unit};
    detail::launch_jobs<collective::scatter>(ranks, its, detail::uneven_blocks(row, unit), detail::word_moves,
                                             options.stream);
    for (std::size_t q = 0; q < p; ++q) arrays.out[q] += row[q] * unit;
  }
}

}  // namespace tutti
