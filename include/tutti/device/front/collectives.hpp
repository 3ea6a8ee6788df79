// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among ranks that pass a buffer each.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>

#include "tutti/algorithm/collective.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

// Every rank gets the combination of all ranks' arrays.
//
// Arguments   the ranks that carry the call out, such as cuda_ipc, and then those of the host's collective of the same
//             name, in the same order. See there for sizes and aliasing. `op` is an operation, fused{operation, prologue,
//             epilogue}, or for all_reduce wire<type>(one of these). The output of a reduction may have another element
//             type, to which results are rounded; input and output are then two buffers that do not overlap
// Stream      the call runs in order on options.stream, and may return before it has run. Leave its buffers as they
//             are, and do not free them, until then (cudaFree waits by itself, cudaFreeAsync on another stream does
//             not)
// Algorithm   named by its type, as in all_reduce<ring>, or by its id out of a list of types, as in
//             all_reduce<list<ring, two_shot>>, if the ranks support it. Only named algorithms are compiled
// Order       rank order with every algorithm that tutti chooses, so results have the bits of one_shot on the host; see
//             cuda_combine for what a device may fuse. A named algorithm gives the bits that it has on the host
// Throws      error: bad_argument before anything is launched; mismatch, timeout, rank_lost, rank_left, system, of this
//             call or an earlier one
// Cost        the messages and bytes of the same algorithm on the host
//
//   tutti::all_reduce(ranks, gradient, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out,
          class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void all_reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::all_reduce>(ranks, in, out, op, 0, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut, class Op = sum>
  requires(!detail::device_list<InOut>) && detail::device_operation<Op, detail::device_value<InOut>>
void all_reduce(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::all_reduce>(ranks, data, data, op, 0, how, where);
}

// The root gets the combination of all ranks' arrays. Other ranks may pass {} for the output, followed by the operation. See
// all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>, class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, int root = 0,
            detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::reduce>(ranks, in, out, op, root, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>, class Op>
  requires detail::device_operation<Op, detail::device_value<In const>>
void reduce(R& ranks, In const& in, Out&& out, Op const& op, detail::device_options_of<R> const& how,
            std::source_location where = std::source_location::current()) {
  reduce<Algorithm>(ranks, in, out, op, 0, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, detail::device_value<InOut>>
void reduce(R& ranks, InOut&& data, Op const& op = {}, int root = 0, detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::reduce>(ranks, data, data, op, root, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut, class Op>
  requires detail::device_operation<Op, detail::device_value<InOut>>
void reduce(R& ranks, InOut&& data, Op const& op, detail::device_options_of<R> const& how,
            std::source_location where = std::source_location::current()) {
  reduce<Algorithm>(ranks, data, op, 0, how, where);
}

// Every rank gets its block of the combination of all ranks' arrays. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out,
          class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void reduce_scatter(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::reduce_scatter>(ranks, in, out, op, 0, how, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out,
          class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void scan(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::scan>(ranks, in, out, op, 0, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, detail::device_value<InOut>>
void scan(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::scan>(ranks, data, data, op, 0, how, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r-1. The output of rank 0 is not written. See all_reduce
// above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out,
          class Op = sum>
  requires detail::device_operation<Op, detail::device_value<In const>>
void exclusive_scan(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::exclusive_scan>(ranks, in, out, op, 0, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, detail::device_value<InOut>>
void exclusive_scan(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_on_device<Algorithm, collective::exclusive_scan>(ranks, data, data, op, 0, how, where);
}

// Every rank gets the root's array. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut>
void broadcast(R& ranks, InOut&& data, int root = 0, detail::device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  detail::move_on_device<Algorithm, collective::broadcast>(ranks, data, data, root, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer InOut>
void broadcast(R& ranks, InOut&& data, detail::device_options_of<R> const& how,
               std::source_location where = std::source_location::current()) {
  broadcast<Algorithm>(ranks, data, 0, how, where);
}

// Every rank gets the blocks of all ranks, in rank order. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out>
void all_gather(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  detail::move_on_device<Algorithm, collective::all_gather>(ranks, in, out, 0, how, where);
}

// The root gets the blocks of all ranks, in rank order. Other ranks may pass {} for the output. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>>
void gather(R& ranks, In const& in, Out&& out, int root = 0, detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  detail::move_on_device<Algorithm, collective::gather>(ranks, in, out, root, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In,
          detail::device_buffer Out = std::span<detail::device_value<In const>>>
void gather(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how,
            std::source_location where = std::source_location::current()) {
  gather<Algorithm>(ranks, in, out, 0, how, where);
}

// Every rank gets its block of the root's array. Other ranks may pass {} for the input. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer Out,
          detail::device_buffer In = std::span<detail::device_value<Out>>>
void scatter(R& ranks, In const& in, Out&& out, int root = 0, detail::device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  detail::move_on_device<Algorithm, collective::scatter>(ranks, in, out, root, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer Out,
          detail::device_buffer In = std::span<detail::device_value<Out>>>
void scatter(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how,
             std::source_location where = std::source_location::current()) {
  scatter<Algorithm>(ranks, in, out, 0, how, where);
}

// Every rank sends a block to every rank. See all_reduce above.
template <class Algorithm = automatic, detail::device_ranks R, detail::device_buffer In, detail::device_buffer Out>
void all_to_all(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  detail::move_on_device<Algorithm, collective::all_to_all>(ranks, in, out, 0, how, where);
}

// A barrier on the stream: its later work begins when all ranks have reached it.
template <detail::device_ranks R>
void barrier(R& ranks, detail::device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  detail::hand_over_move<automatic, collective::barrier>(
      ranks, detail::device_request<collective::barrier, std::uint8_t>(how, 0),
      detail::call_buffers<std::uint8_t, std::uint8_t>{}, detail::message_of(0), detail::message_of(0), how, where);
}

}  // namespace tutti
