// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks of one process on its devices: the program passes the buffers of all ranks, and each
// collective is one launch on each device, in which no thread waits for another; or the algorithm that it names, whose
// ranks do.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/local/launch.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

// All of these take `in` and `out`, the buffers of the ranks in rank order (or the one of a root, which is rank 0), whose
// sizes and meaning are those of the collective of the same name. Throw error: bad_argument before anything is launched;
// system.
//
// Left to tutti, a call is one launch of independent jobs, on each device those of its ranks. It gives the bits of
// one_shot on the host; see cuda_combine for what a device may fuse. `op` is an operation, or fused{operation,
// prologue, epilogue}. Arrays that an epilogue keeps go with all_reduce and reduce alone, whose results are one for all
// ranks.
//
// With an algorithm, as in all_reduce<ring>, ranks of a cuda_local with channels send each other messages, in one
// launch on each device, whose blocks run at once. It gives the bits of that algorithm on the host; `op` is an
// operation. With a list of algorithms, as in all_reduce<list<ring, two_shot>>, options.algorithm is one of them. Only
// what is named is compiled. A call that needs more memory than those before allocates it, so make it once before it is
// captured in a graph.

// In place where in[r] is out[r], of one type. One pass: every element of every rank is read once and written once. It
// implements one_shot and two_shot, whose bits are the same.
//
//   tutti::cuda_device gpu;
//   tutti::cuda_local ranks(gpu, 4);
//   tutti::all_reduce(ranks, gradients, gradients, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void all_reduce(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  using T = detail::device_form<Op, detail::device_element<In>>;
  using result = detail::device_form<Op, detail::device_element<Out>>;
  std::size_t const n = detail::size_of_first(in);
  auto const from = detail::addresses<T const*>("input", in, ranks.size(), n, where);
  auto const to = detail::addresses<result*>("output", out, ranks.size(), n, where);
  detail::expect_apart<collective::all_reduce>(from, to, n, n, n, where);
  detail::carry_out<Algorithm, collective::all_reduce>(ranks, from, to, n, op, options, where, [&] {
    detail::launch_pass_of(ranks, from, to, n, detail::in_stages<T>(op, ranks.size()), options.stream);
  });
}

// `out` is the buffer of the root, and may be that of its input.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In, device_buffer Out,
          class Op = sum>
void reduce(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
            device_options<D> const& options = {}, std::source_location where = std::source_location::current()) {
  using T = detail::device_form<Op, detail::device_element<In>>;
  using result = detail::device_form<Op, device_value<Out>>;
  auto const from = detail::addresses<T const*>("input", in, ranks.size(), out.size(), where);
  std::vector<result*> const to{detail::to_device_form<Op>(device_data(out))};
  for (std::size_t r = 0; r < from.size(); ++r)
    detail::expect_apart<collective::reduce>(static_cast<int>(r), from[r], out.size(), to[0], out.size(), 0, where);
  detail::carry_out<Algorithm, collective::reduce>(ranks, from, to, out.size(), op, options, where, [&] {
    detail::launch_pass_of(ranks, from, to, out.size(), detail::in_stages<T>(op, ranks.size()), options.stream);
  });
}

// `in` is the buffer of the root.
template <class Algorithm = automatic, detail::device D, class Reach, device_buffer In, detail::device_buffers Out>
void broadcast(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
               std::source_location where = std::source_location::current()) {
  using T = detail::device_element<Out>;
  static_assert(std::is_same_v<device_value<In>, T>, "inputs and outputs have different element types");
  using word = detail::word_of<T>;
  std::size_t const n = in.size() * detail::words_in<T>;
  std::vector<word const*> const from{reinterpret_cast<word const*>(device_data(in))};
  auto const to = detail::addresses<word*>("output", out, ranks.size(), in.size(), where);
  for (std::size_t r = 0; r < to.size(); ++r)
    detail::expect_apart<collective::broadcast>(static_cast<int>(r), from[0], n, to[r], n, 0, where);
  auto const copy_to = [&](std::vector<word*> const& outputs) {
    detail::launch_pass_of(ranks, from, outputs, n, detail::word_moves, options.stream);
  };
  bool all = false;
  detail::carry_out<Algorithm, collective::broadcast>(ranks, from, to, n, bit_or{}, options, where, [&] {
    copy_to(to);
    all = true;
  });
  // Schedules leave the output of the root alone.
  if (!all && to[0] != from[0]) copy_to({to[0]});
}

// In place where out[r] is block r of in[r].
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void reduce_scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(out), size = static_cast<std::size_t>(ranks.size());
  detail::reduce_blocks<Algorithm, collective::reduce_scatter, detail::device_element<In>>(ranks, in, n * size, out, n,
                                                                                           op, options, where);
}

// In place where in[r] is block r of out[r].
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in), size = static_cast<std::size_t>(ranks.size());
  detail::move_blocks<Algorithm, collective::all_gather, detail::device_element<In>>(
      ranks, in, ranks.size(), n, out, ranks.size(), n * size, n, options, where);
}

// `out` is the buffer of the root.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In, device_buffer Out>
void gather(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
            std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in), size = static_cast<std::size_t>(ranks.size());
  std::span const root(&out, 1);
  detail::move_blocks<Algorithm, collective::gather, detail::device_element<In>>(ranks, in, ranks.size(), n, root, 1,
                                                                                 n * size, n, options, where);
}

// `in` is the buffer of the root.
template <class Algorithm = automatic, detail::device D, class Reach, device_buffer In, detail::device_buffers Out>
void scatter(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
             std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(out), size = static_cast<std::size_t>(ranks.size());
  std::span const root(&in, 1);
  detail::move_blocks<Algorithm, collective::scatter, device_value<In>>(ranks, root, 1, n * size, out, ranks.size(), n,
                                                                        n, options, where);
}

// Not in place.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out>
void all_to_all(cuda_local<D, Reach> const& ranks, In& in, Out& out, device_options<D> const& options = {},
                std::source_location where = std::source_location::current()) {
  std::size_t const all = detail::size_of_first(in), n = all / static_cast<std::size_t>(ranks.size());
  if (n * static_cast<std::size_t>(ranks.size()) != all)
    throw error({.code = error_code::bad_argument,
                 .what = detail::join({"all_to_all of ", all, " elements among ", ranks.size(), " ranks"}),
                 .way_out = "pass a block of equal size for each rank",
                 .where = where});
  detail::move_blocks<Algorithm, collective::all_to_all, detail::device_element<In>>(
      ranks, in, ranks.size(), all, out, ranks.size(), all, n, options, where);
}

// Not in place.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {}, device_options<D> const& options = {},
          std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in);
  detail::reduce_blocks<Algorithm, collective::scan, detail::device_element<In>>(ranks, in, n, out, n, op, options,
                                                                                 where);
}

// Not in place. out[0] is not touched.
template <class Algorithm = automatic, detail::device D, class Reach, detail::device_buffers In,
          detail::device_buffers Out, class Op = sum>
void exclusive_scan(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op = {},
                    device_options<D> const& options = {},
                    std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in);
  detail::reduce_blocks<Algorithm, collective::exclusive_scan, detail::device_element<In>>(ranks, in, n, out, n, op,
                                                                                           options, where);
}

}  // namespace tutti
