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

// `in` and `out` are the buffers of the ranks in rank order, or the one of the root, which is rank 0. Their sizes and meaning
// are those of the collective of the same name. Throws error: bad_argument before anything is launched; system.
//
// Where tutti chooses, a call is one launch of independent jobs, on each device those of its ranks. It gives the bits of
// one_shot on the host; see cuda_combine for what a device may fuse. `op` is an operation, or fused{operation, prologue,
// epilogue}. An epilogue can only update arrays of its own in all_reduce and reduce, whose results are the same for all
// ranks.
//
// With a named algorithm, as in all_reduce<ring>, ranks of a cuda_local with channels send each other messages, in one launch
// on each device, whose blocks run at once. It gives the bits of that algorithm on the host; `op` is an operation. With a
// list of algorithms, as in all_reduce<list<ring, two_shot>>, options.algorithm chooses one of them. Only what is named is
// compiled. A call that needs more memory than those before allocates it, so make it once before you capture it in a graph.
//
// In place, with buffers of one type: as on the host, except for all_to_all, scan and exclusive_scan, whose input and output
// must not overlap.

// One pass reads and writes every element of every rank once. It implements one_shot and two_shot, whose bits are the same.
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

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out, class Op = sum>
void reduce(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(out);
  detail::reduce_local<Algorithm, collective::reduce>(ranks, in, root, op, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void broadcast(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(in);
  detail::move_local<Algorithm, collective::broadcast>(ranks, root, out, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void reduce_scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::reduce_scatter>(ranks, in, out, op, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_gather>(ranks, in, out, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffer Out>
void gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
            std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(out);
  detail::move_local<Algorithm, collective::gather>(ranks, in, root, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffer In,
          detail::device_buffers Out>
void scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
             std::source_location where = std::source_location::current()) {
  detail::roots_buffer root(in);
  detail::move_local<Algorithm, collective::scatter>(ranks, root, out, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_to_all(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  detail::move_local<Algorithm, collective::all_to_all>(ranks, in, out, options, where);
}

template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {}, device_options<D> const& options = {},
          std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::scan>(ranks, in, out, op, options, where);
}

// out[0] is not written.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void exclusive_scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  detail::reduce_local<Algorithm, collective::exclusive_scan>(ranks, in, out, op, options, where);
}

}  // namespace tutti
