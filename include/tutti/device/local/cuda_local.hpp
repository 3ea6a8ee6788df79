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
// Arguments   `in` and `out` are the buffers of all ranks in rank order, or that of the root, which is rank 0. Their
//             sizes and meaning are those of the host's collective of the same name. `op` is an operation, or
//             fused{operation, prologue, epilogue}; an epilogue can update arrays of its own only in all_reduce and
//             reduce, whose results are the same for all ranks
// In place    as on the host, with buffers of one type; but input and output of all_to_all, scan and exclusive_scan
//             must not overlap
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
//   tutti::all_reduce(ranks, gradients, gradients, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void all_reduce(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::all_reduce>(ranks, in, out, op, options, where);
}

// The root gets the combination of all ranks' arrays. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out, class Op = sum>
void reduce(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(out);
  detail::reduce_local<Algorithm, collective::reduce>(ranks, in, root, op, options, where);
}

// Every rank gets the root's array. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void broadcast(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(in);
  detail::move_local<Algorithm, collective::broadcast>(ranks, root, out, options, where);
}

// Every rank gets its block of the combination of all ranks' arrays. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void reduce_scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::reduce_scatter>(ranks, in, out, op, options, where);
}

// Every rank gets the blocks of all ranks, in rank order. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_gather>(ranks, in, out, options, where);
}

// The root gets the blocks of all ranks, in rank order. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out>
void gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
            std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(out);
  detail::move_local<Algorithm, collective::gather>(ranks, in, root, options, where);
}

// Every rank gets its block of the root's array. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
             std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(in);
  detail::move_local<Algorithm, collective::scatter>(ranks, root, out, options, where);
}

// Every rank sends a block to every rank. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_to_all(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_to_all>(ranks, in, out, options, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {}, device_options<D> const& options = {},
          std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::scan>(ranks, in, out, op, options, where);
}

// Rank r gets the combination of the arrays of ranks 0 to r-1; out[0] is not written. See all_reduce above.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void exclusive_scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::exclusive_scan>(ranks, in, out, op, options, where);
}

}  // namespace tutti
