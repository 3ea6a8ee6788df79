// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory with blocks of uneven sizes, among ranks that pass a buffer each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/count_list.hpp"
#include "tutti/call/uneven_blocks.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {
namespace detail {

// The checked buffers of a _v form and the layouts of their blocks, in `unit` parts of an element.
template <collective C, class In, class Out>
class uneven_device_buffers {
 public:
  template <device_ranks R>
  uneven_device_buffers(R const& ranks, std::span<In const> in, block_sizes const& sent, std::span<Out> out,
                        block_sizes const& received, std::size_t unit, int root, std::source_location where) {
    auto const all = check_uneven_buffers<C>(ranks, in, sent, out, received, unit, lists_, root, where);
    bool const is_root = ranks.rank() == root;
    used = all.used;
    given = deals(C) && row_of(C).input.at(is_root) != holding::none ? all.given : message_of(used.count * unit);
    got = collects(C) && row_of(C).output.at(is_root) != holding::none ? all.got : message_of(used.count * unit);
  }
  uneven_device_buffers(uneven_device_buffers const&) = delete;
  uneven_device_buffers& operator=(uneven_device_buffers const&) = delete;

  call_buffers<In, Out> used{};
  layout given, got;

 private:
  counts_and_offsets lists_;
};

template <collective C, device_ranks R, class In, class Out>
void move_uneven_on_device(R& ranks, In const& in, block_sizes const& sent, Out& out, block_sizes const& received,
                           int root, device_options_of<R> const& how, std::source_location where) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of a call have different element types");
  uneven_device_buffers<C, T, T> const all(ranks, inputs_of(in), sent, elements_of(out), received, words_in<T>, root,
                                           where);
  hand_over_move<automatic, C>(ranks, ragged(device_request<C, T>(how, 0, root), known_counts<C>(sent, received)),
                               all.used, all.given, all.got, how, where);
}

// A reduce_scatter_v; `sizes` as for reduce_on_device.
template <device_ranks R, class In, class Out, class Op>
void reduce_uneven_on_device(R& ranks, In const& in, Out& out, count_list<collective::reduce_scatter> const& counts,
                             Op const& op, device_options_of<R> const& how, std::source_location where,
                             std::uint32_t sizes = 0) {
  using T = device_value<In const>;
  constexpr collective C = collective::reduce_scatter;
  expect_usable_on_devices<Op, T, device_value<Out>>();
  uneven_device_buffers<C, T, device_value<Out>> const all(ranks, inputs_of(in), {counts}, elements_of(out), {}, 1, 0,
                                                           where);
  request what = ragged(device_request<C, T, Op>(how, 0), counts);
  if (sizes != 0) what.sizes = static_cast<std::uint32_t>(mix(what.sizes, sizes));
  hand_over_reduction<automatic, C>(ranks, what, all.used, all.given, all.got, op, how, where);
}

}  // namespace detail

// Every rank gets its block of the combination of all ranks' arrays; rank r's block has counts[r] elements. Arguments
// are those of the host's form, then the options; see device/front/collectives.hpp. A call cannot name an algorithm.
template <detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void reduce_scatter_v(R& ranks, In const& in, Out&& out, detail::count_list<collective::reduce_scatter> const& counts,
                      Op const& op = {}, detail::device_options_of<R> const& how = {},
                      std::source_location where = std::source_location::current()) {
  detail::reduce_uneven_on_device(ranks, in, out, counts, op, how, where);
}

// Every rank gets the blocks of all ranks, in rank order. Rank r's block has counts[r] elements and is placed at
// element offsets[r], or after the previous block.
template <detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out>
void all_gather_v(R& ranks, In const& in, Out&& out, detail::count_list<collective::all_gather> const& counts,
                  detail::count_list<collective::all_gather> const& offsets = {},
                  detail::device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  detail::move_uneven_on_device<collective::all_gather>(ranks, in, {}, out, {counts, offsets}, 0, how, where);
}

// The root gets the blocks of all ranks, in rank order. As all_gather_v, at the root; other ranks may pass {} for the output.
template <detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>>
void gather_v(R& ranks, In const& in, Out&& out, detail::count_list<collective::gather> const& counts,
              detail::count_list<collective::gather> const& offsets = {}, int root = 0,
              detail::device_options_of<R> const& how = {},
              std::source_location where = std::source_location::current()) {
  detail::move_uneven_on_device<collective::gather>(ranks, in, {}, out, {counts, offsets}, root, how, where);
}
template <detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>>
void gather_v(R& ranks, In const& in, Out&& out, detail::count_list<collective::gather> const& counts,
              detail::count_list<collective::gather> const& offsets, detail::device_options_of<R> const& how,
              std::source_location where = std::source_location::current()) {
  gather_v(ranks, in, out, counts, offsets, 0, how, where);
}

// Every rank gets its block of the root's array. Rank r's block has counts[r] elements and starts at element offsets[r]
// of the root's array. Other ranks may pass {} for the input.
template <detail::device_ranks R, detail::device_buffer Out,
          detail::device_buffer In = std::span<detail::device_value<Out>>>
void scatter_v(R& ranks, In const& in, detail::count_list<collective::scatter> const& counts, Out&& out,
               detail::count_list<collective::scatter> const& offsets = {}, int root = 0,
               detail::device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  detail::move_uneven_on_device<collective::scatter>(ranks, in, {counts, offsets}, out, {}, root, how, where);
}
template <detail::device_ranks R, detail::device_buffer Out,
          detail::device_buffer In = std::span<detail::device_value<Out>>>
void scatter_v(R& ranks, In const& in, detail::count_list<collective::scatter> const& counts, Out&& out,
               detail::count_list<collective::scatter> const& offsets, detail::device_options_of<R> const& how,
               std::source_location where = std::source_location::current()) {
  scatter_v(ranks, in, counts, out, offsets, 0, how, where);
}

// Every rank sends a block to every rank. send_counts[q] elements go to rank q, and receive_counts[q] come from it.
template <detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out>
void all_to_all_v(R& ranks, In const& in, detail::count_list<collective::all_to_all> const& send_counts, Out&& out,
                  detail::count_list<collective::all_to_all> const& receive_counts,
                  detail::count_list<collective::all_to_all> const& send_offsets = {},
                  detail::count_list<collective::all_to_all> const& receive_offsets = {},
                  detail::device_options_of<R> const& how = {},
                  std::source_location where = std::source_location::current()) {
  detail::move_uneven_on_device<collective::all_to_all>(ranks, in, {send_counts, send_offsets}, out,
                                                        {receive_counts, receive_offsets}, 0, how, where);
}

}  // namespace tutti
