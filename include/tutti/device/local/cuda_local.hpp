// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks of one process on its devices. The program passes the buffers of all ranks. Each
// collective is one launch on each device, in which no thread waits for another, or a named algorithm, whose ranks do.
#pragma once

#include <source_location>

#include "tutti/algorithm/collective.hpp"
#include "tutti/device/local/buffers.hpp"
#include "tutti/device/local/launch.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

// Every rank gets the combination of all ranks' arrays.
//
// Arguments   `in` and `out` are lists of the buffers of all ranks in rank order, or the buffer of the root, which is rank
//             0 unless the call names another. Their sizes and meaning are those of the host's collective of the same
//             name. `op` is an operation, or fused{operation, prologue, epilogue}; an epilogue can update arrays of its
//             own only in all_reduce and reduce, whose results are the same for all ranks
// In place    all_reduce, reduce and broadcast of one list: the results replace the arrays. Else as on the host, with
//             buffers of one type; but input and output of all_to_all, scan and exclusive_scan must not overlap
// Algorithm   by default a call is one launch of independent jobs per device, for the ranks on it. With a named
//             algorithm, as in all_reduce<ring>, ranks of a cuda_local with channels send each other messages, in one
//             launch per device, whose blocks run at once; `op` is then an operation. With a list of algorithms, as in
//             all_reduce<list<ring, two_shot>>, options.algorithm chooses one of them. Only named algorithms are
//             compiled
// Order       the bits of one_shot on the host, or those of the named algorithm; see cuda_combine for what a device may
//             fuse
// Throws      error: bad_argument before anything is launched; system
// Cost        by default one pass that reads and writes every element of every rank once. A call that needs more memory
//             than those before allocates it, so make it once before it is captured in a graph
//
//   tutti::cuda_device gpu;
//   tutti::cuda_local ranks(gpu, 4);
//   tutti::all_reduce(ranks, gradients, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void all_reduce(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op = {},
                device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::all_reduce>(ranks, in, out, op, 0, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers InOut, class Op = sum>
  requires(!detail::device_buffers<Op const>)
void all_reduce(cuda_local<D, Reach> const& ranks, InOut&& data, Op const& op = {},
                device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::all_reduce>(ranks, data, data, op, 0, options, where);
}

// The root gets the combination of all ranks' arrays. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out, class Op>
void reduce(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op, int root,
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(out);
  detail::reduce_local<Algorithm, collective::reduce>(ranks, in, of_root, op, root, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out, class Op = sum>
void reduce(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op = {},
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  reduce<Algorithm>(ranks, in, out, op, 0, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers InOut, class Op>
  requires(!detail::device_buffer<Op const>)
void reduce(cuda_local<D, Reach> const& ranks, InOut&& data, Op const& op, int root,
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::expect_root(detail::virtual_rank{0, ranks.size()}, root, where);
  reduce<Algorithm>(ranks, data, data[static_cast<std::size_t>(root)], op, root, options, where);
}

// Every rank gets the root's array. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void broadcast(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, int root, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(in);
  detail::move_local<Algorithm, collective::broadcast>(ranks, of_root, out, root, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void broadcast(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  broadcast<Algorithm>(ranks, in, out, 0, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers InOut>
void broadcast(cuda_local<D, Reach> const& ranks, InOut&& data, int root, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  detail::expect_root(detail::virtual_rank{0, ranks.size()}, root, where);
  broadcast<Algorithm>(ranks, data[static_cast<std::size_t>(root)], data, root, options, where);
}

// Every rank gets its block of the combination of all ranks' arrays. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void reduce_scatter(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::reduce_scatter>(ranks, in, out, op, 0, options, where);
}

// Every rank gets the blocks of all ranks, in rank order. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_gather(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_gather>(ranks, in, out, 0, options, where);
}

// The root gets the blocks of all ranks, in rank order. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out>
void gather(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, int root, device_options<D> const& options = {},
            std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(out);
  detail::move_local<Algorithm, collective::gather>(ranks, in, of_root, root, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out>
void gather(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, device_options<D> const& options = {},
            std::source_location where = std::source_location::current()) {
  gather<Algorithm>(ranks, in, out, 0, options, where);
}

// Every rank gets its block of the root's array. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void scatter(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, int root, device_options<D> const& options = {},
             std::source_location where = std::source_location::current()) {
  detail::roots_buffer of_root(in);
  detail::move_local<Algorithm, collective::scatter>(ranks, of_root, out, root, options, where);
}
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void scatter(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, device_options<D> const& options = {},
             std::source_location where = std::source_location::current()) {
  scatter<Algorithm>(ranks, in, out, 0, options, where);
}

// Every rank sends a block to every rank. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_to_all(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_to_all>(ranks, in, out, 0, options, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void scan(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op = {},
          device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::scan>(ranks, in, out, op, 0, options, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r-1; out[0] is not written. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void exclusive_scan(cuda_local<D, Reach> const& ranks, In&& in, Out&& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::exclusive_scan>(ranks, in, out, op, 0, options, where);
}

}  // namespace tutti
