// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on memory of devices whose blocks differ in size, among ranks that pass a buffer each.
#pragma once

#include <cstddef>
#include <numeric>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

// As without _v, see device_collectives.hpp, with the counts and offsets of the host's. No algorithm can be named.

template <detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void reduce_scatter_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts, Op const& op = {},
                      detail::device_options_of<R> const& how = {},
                      std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  detail::device_blocks const blocks(ranks, "reduce_scatter_v's", counts, {}, in.size(), 1, where);
  detail::layout const given = blocks.where();
  extent const own = given.at(0, ranks.rank());
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  bool const in_place = static_cast<void const*>(to) == from + own.begin;
  detail::expect_size(ranks, "the input of reduce_scatter_v", in.size(),
                      std::accumulate(counts.begin(), counts.end(), std::size_t{0}), where);
  detail::expect_size(ranks, "the output of reduce_scatter_v", out.size(), own.count, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, in.size(), to, own.count, in_place ? to : nullptr, where);
  detail::combine_on_device<automatic, collective::reduce_scatter>(
      ranks, detail::ragged_device_request(detail::device_request<collective::reduce_scatter, T, Op>(how, 0), counts),
      from, given, to, detail::message_of(own.count), op, how, where);
}

template <detail::device_ranks R, device_buffer In, device_buffer Out>
void all_gather_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts,
                  std::span<std::size_t const> offsets = {}, detail::device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_gather_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::device_blocks const blocks(ranks, "all_gather_v's", counts, offsets, out.size(), unit, where);
  detail::layout const got = blocks.where();
  extent const own = got.at(0, ranks.rank());
  T const* const from = device_data(in);
  T* const to = device_data(out);
  bool const in_place = from == to + own.begin / unit;
  detail::expect_size(ranks, "the input of all_gather_v", in.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, in.size(), to, got.end() / unit, in_place ? to : nullptr,
                                      where);
  detail::move_on_device<automatic, collective::all_gather, T>(
      ranks, detail::ragged_device_request(detail::device_request<collective::all_gather, T>(how, 0), counts), from,
      detail::message_of(own.count), to, got, how, where);
}

template <detail::device_ranks R, device_buffer In, device_buffer Out>
void gather_v(R& ranks, In const& in, Out&& out, std::span<std::size_t const> counts,
              std::span<std::size_t const> offsets = {}, int root = 0, detail::device_options_of<R> const& how = {},
              std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of gather_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = device_data(in);
  detail::layout const given = detail::message_of(in.size() * unit);
  detail::request const what =
      detail::ragged_device_request(detail::device_request<collective::gather, T>(how, 0, root));
  if (ranks.rank() != root)
    return detail::move_on_device<automatic, collective::gather, T>(ranks, what, from, given, nullptr, given, how,
                                                                    where);
  detail::device_blocks const blocks(ranks, "gather_v's", counts, offsets, out.size(), unit, where);
  detail::layout const got = blocks.where();
  extent const own = got.at(0, root);
  T* const to = device_data(out);
  bool const in_place = from == to + own.begin / unit;
  detail::expect_size(ranks, "the root's input of gather_v", in.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(root, from, in.size(), to, got.end() / unit, in_place ? to : nullptr, where);
  detail::move_on_device<automatic, collective::gather, T>(ranks, what, from, given, to, got, how, where);
}

template <detail::device_ranks R, device_buffer In, device_buffer Out>
void scatter_v(R& ranks, In const& in, std::span<std::size_t const> counts, Out&& out,
               std::span<std::size_t const> offsets = {}, int root = 0, detail::device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of scatter_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T* const to = device_data(out);
  detail::layout const got = detail::message_of(out.size() * unit);
  detail::request const what =
      detail::ragged_device_request(detail::device_request<collective::scatter, T>(how, 0, root));
  if (ranks.rank() != root)
    return detail::move_on_device<automatic, collective::scatter, T>(ranks, what, nullptr, got, to, got, how, where);
  detail::device_blocks const blocks(ranks, "scatter_v's", counts, offsets, in.size(), unit, where);
  detail::layout const given = blocks.where();
  extent const own = given.at(0, root);
  T const* const from = device_data(in);
  bool const in_place = to == from + own.begin / unit;
  detail::expect_size(ranks, "the root's output of scatter_v", out.size(), own.count / unit, where);
  detail::expect_device_buffers_apart(root, from, given.end() / unit, to, out.size(), in_place ? to : nullptr, where);
  detail::move_on_device<automatic, collective::scatter, T>(ranks, what, from, given, to, got, how, where);
}

template <detail::device_ranks R, device_buffer In, device_buffer Out>
void all_to_all_v(R& ranks, In const& in, std::span<std::size_t const> send_counts, Out&& out,
                  std::span<std::size_t const> receive_counts, std::span<std::size_t const> send_offsets = {},
                  std::span<std::size_t const> receive_offsets = {}, detail::device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_to_all_v have different element types");
  constexpr std::size_t unit = detail::words_in<T>;
  detail::device_blocks const sent(ranks, "all_to_all_v's send", send_counts, send_offsets, in.size(), unit, where);
  detail::device_blocks const received(ranks, "all_to_all_v's receive", receive_counts, receive_offsets, out.size(),
                                       unit, where);
  T const* const from = device_data(in);
  T* const to = device_data(out);
  auto const own = static_cast<std::size_t>(ranks.rank());
  detail::expect_size(ranks, "this rank's block for itself in all_to_all_v", receive_counts[own], send_counts[own],
                      where);
  detail::expect_device_buffers_apart(ranks.rank(), from, sent.where().end() / unit, to, received.where().end() / unit,
                                      nullptr, where);
  detail::move_on_device<automatic, collective::all_to_all, T>(
      ranks, detail::ragged_device_request(detail::device_request<collective::all_to_all, T>(how, 0)), from,
      sent.where(), to, received.where(), how, where);
}

}  // namespace tutti
