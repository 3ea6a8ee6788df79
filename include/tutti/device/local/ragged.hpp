// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks of a device whose blocks differ in size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/device/local/launch.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {
namespace detail {

// Blocks of these lengths, one after the other, in units of `unit`.
inline ragged_blocks blocks_of(std::span<std::size_t const> counts, std::size_t unit = 1) {
  ragged_blocks out{};
  for (std::size_t q = 0; q < counts.size(); ++q) out.begins[q + 1] = out.begins[q] + counts[q] * unit;
  return out;
}
inline std::size_t total(std::span<std::size_t const> counts) {
  std::size_t sum = 0;
  for (std::size_t const n : counts) sum += n;
  return sum;
}
template <device D, class Reach>
void expect_counts(cuda_local<D, Reach> const& ranks, std::size_t given, std::size_t needed,
                   std::source_location where) {
  if (given != needed)
    refuse_call(join({given, " counts for ", ranks.size(), " ranks, which need ", needed}),
                "pass the elements of each block", where);
}
// The _v forms are carried out by independent jobs alone.
template <device D>
void expect_jobs(device_options<D> const& how, std::source_location where) {
  if (how.algorithm != algorithm_id::automatic || how.protocol != protocol::automatic)
    refuse_call("blocks of their own sizes go by one launch of jobs alone, and the call asks for something else",
                "leave algorithm and protocol automatic", where);
}

template <collective C, class T, device D, class Reach, class How>
void launch_ragged(cuda_local<D, Reach> const& ranks, std::vector<T const*> in, std::vector<T*> out,
                   std::span<std::size_t const> counts, std::size_t unit, How const& how,
                   device_options<D> const& options, std::source_location where) {
  expect_jobs(options, where);
  std::size_t const longest = counts.empty() ? 0 : *std::ranges::max_element(counts) * unit;
  if (longest == 0) return;
  ragged_blocks const blocks = blocks_of(counts, unit);
  for (std::size_t r = 0; r < in.size() && r < out.size(); ++r) {
    std::size_t const all = total(counts) * unit, own = counts[r] * unit;
    expect_apart<C>(static_cast<int>(r), in[r], deals(C) ? all : own, out[r], collects(C) ? all : own, blocks.begins[r],
                    where);
  }
  shown_range const shown = show_launch<C>(ranks, longest * sizeof(T));
  launch_jobs<C>(ranks, local_arrays<T>{std::move(in), std::move(out), longest}, blocks, how, options.stream);
}

// What only moves, as words.
template <collective C, class T, device D, class Reach, class In, class Out>
void move_ragged(cuda_local<D, Reach> const& ranks, In& in, std::span<std::size_t const> in_sizes, Out& out,
                 std::span<std::size_t const> out_sizes, std::span<std::size_t const> counts,
                 device_options<D> const& options, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  using word = word_of<T>;
  launch_ragged<C>(ranks, addresses<word const*>("input", in, in_sizes, where),
                   addresses<word*>("output", out, out_sizes, where), counts, words_in<T>, word_moves, options, where);
}

}  // namespace detail

// Every rank's block has a length of its own: rank r's has counts[r] elements. Blocks follow each other without gaps. In
// place as without _v. One launch; options have a stream. Throw error: bad_argument before anything is launched; system.

// in[r] has counts[r] elements, out[r] those of all.
//
//   tutti::all_gather_v(ranks, shards, weights, counts, {.stream = stream});
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out>
void all_gather_v(cuda_local<D, Reach> const& ranks, In& in, Out& out, std::span<std::size_t const> counts,
                  device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::expect_counts(ranks, counts.size(), static_cast<std::size_t>(ranks.size()), where);
  std::vector const all(counts.size(), detail::total(counts));
  detail::move_ragged<collective::all_gather, detail::device_element<In>>(ranks, in, counts, out, all, counts, options,
                                                                          where);
}

// `out` is the buffer of the root, of the elements of all.
template <detail::device D, class Reach, detail::device_buffers In, device_buffer Out>
void gather_v(cuda_local<D, Reach> const& ranks, In& in, Out& out, std::span<std::size_t const> counts,
              device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::expect_counts(ranks, counts.size(), static_cast<std::size_t>(ranks.size()), where);
  std::span const root(&out, 1);
  std::size_t const all[] = {detail::total(counts)};
  detail::move_ragged<collective::gather, detail::device_element<In>>(ranks, in, counts, root, all, counts, options,
                                                                      where);
}

// `in` is the buffer of the root, of the elements of all.
template <detail::device D, class Reach, device_buffer In, detail::device_buffers Out>
void scatter_v(cuda_local<D, Reach> const& ranks, In& in, Out& out, std::span<std::size_t const> counts,
               device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::expect_counts(ranks, counts.size(), static_cast<std::size_t>(ranks.size()), where);
  std::span const root(&in, 1);
  std::size_t const all[] = {detail::total(counts)};
  detail::move_ragged<collective::scatter, device_value<In>>(ranks, root, all, out, counts, counts, options, where);
}

// in[r] has the elements of all, out[r] counts[r].
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out, class Op = sum>
void reduce_scatter_v(cuda_local<D, Reach> const& ranks, In& in, Out& out, std::span<std::size_t const> counts,
                      Op const& op = {}, device_options<D> const& options = {},
                      std::source_location where = std::source_location::current()) {
  static_assert(std::is_same_v<detail::device_element<In>, detail::device_element<Out>>,
                "inputs and outputs have different element types");
  using T = detail::device_form<Op, detail::device_element<In>>;
  detail::expect_counts(ranks, counts.size(), static_cast<std::size_t>(ranks.size()), where);
  std::vector const all(counts.size(), detail::total(counts));
  detail::launch_ragged<collective::reduce_scatter>(ranks, detail::addresses<T const*>("input", in, all, where),
                                                    detail::addresses<T*>("output", out, counts, where), counts, 1,
                                                    detail::in_stages<T>(op, ranks.size()), options, where);
}

// counts[r * size + q] elements go from rank r to rank q. Not in place. A launch for each rank.
template <detail::device D, class Reach, detail::device_buffers In, detail::device_buffers Out>
void all_to_all_v(cuda_local<D, Reach> const& ranks, In& in, Out& out, std::span<std::size_t const> counts,
                  device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  using T = detail::device_element<In>;
  static_assert(std::is_same_v<T, detail::device_element<Out>>, "inputs and outputs have different element types");
  using word = detail::word_of<T>;
  auto const size = static_cast<std::size_t>(ranks.size());
  detail::expect_counts(ranks, counts.size(), size * size, where);
  std::vector<std::size_t> sent(size), received(size);
  for (std::size_t i = 0; i < counts.size(); ++i) sent[i / size] += counts[i], received[i % size] += counts[i];
  auto const from = detail::addresses<word const*>("input", in, sent, where);
  auto to = detail::addresses<word*>("output", out, received, where);
  constexpr std::size_t unit = detail::words_in<T>;
  for (std::size_t r = 0; r < size; ++r)
    detail::expect_apart<collective::all_to_all>(static_cast<int>(r), from[r], sent[r] * unit, to[r],
                                                 received[r] * unit, 0, where);
  for (std::size_t r = 0; r < size; ++r) {
    auto const row = counts.subspan(r * size, size);
    detail::launch_ragged<collective::scatter>(ranks, std::vector<word const*>{from[r]}, to, row, unit,
                                               detail::word_moves, options, where);
    for (std::size_t q = 0; q < size; ++q) to[q] += row[q] * unit;
  }
}

}  // namespace tutti
