// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives among virtual ranks of one process on one device: the program passes the buffers of all ranks, and each
// collective is one launch, in which no thread waits for another.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/collective/device_call.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/cuda_combine.hpp"
#include "tutti/execute/cuda_jobs.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/transport/device.hpp"

namespace tutti {

// One for each rank, in rank order.
template <class R>
concept device_buffers = requires(R& r, std::size_t rank) {
  { r.size() } -> std::convertible_to<std::size_t>;
  { r[rank] } -> device_buffer;
};
template <device_buffers R>
using device_element = device_value<std::remove_reference_t<decltype(std::declval<R&>()[0])>>;

// Ranks that live on one device. It owns nothing and has no state: collectives are ordered by their streams alone, and may be
// captured in a graph. The device outlives it.
template <device D>
class cuda_local {
 public:
  // Throws error: bad_argument, for ranks other than 1 to 64.
  cuda_local(D const& on, int ranks) : on_{&on}, ranks_{ranks} {
    if (ranks < 1 || ranks > most_destinations)
      throw error({.code = error_code::bad_argument,
                   .what = join({"a device was asked for ", ranks, " virtual ranks"}),
                   .way_out = join({"ask for 1 to ", most_destinations})});
  }
  int size() const { return ranks_; }
  D const& on() const { return *on_; }

 private:
  D const* on_;
  int ranks_;
};

namespace detail {

// The addresses of the buffers of all ranks, which are `count` and have `size` elements each.
template <class Pointer, class Buffers>
std::vector<Pointer> addresses(char const* what, Buffers& buffers, int count, std::size_t size,
                               std::source_location where) {
  if (static_cast<int>(buffers.size()) != count)
    throw error({.code = error_code::bad_argument,
                 .what = join({buffers.size(), " ", what, " buffers for ", count, " ranks"}),
                 .way_out = "pass one for each rank",
                 .where = where});
  std::vector<Pointer> out;
  for (auto& buffer : buffers) {
    if (buffer.size() != size)
      throw error({.code = error_code::bad_argument,
                   .rank = static_cast<int>(out.size()),
                   .what = join({"the ", what, " buffer has ", buffer.size(), " elements where the call needs ", size}),
                   .way_out = "give it that size",
                   .where = where});
    out.push_back(reinterpret_cast<Pointer>(device_data(buffer)));
  }
  return out;
}

// Input and output of a rank are the same place, where that is allowed, or do not touch: blocks are read and written by
// threads that do not wait for each other.
template <collective C, class In, class Out>
void expect_apart(std::vector<In const*> const& in, std::vector<Out*> const& out, std::size_t in_size,
                  std::size_t out_size, std::size_t n, std::source_location where) {
  for (std::size_t k = 0; k < in.size() && k < out.size(); ++k) {
    auto const a = reinterpret_cast<std::uintptr_t>(in[k]), b = reinterpret_cast<std::uintptr_t>(out[k]);
    std::uintptr_t const block = k * n * sizeof(In);
    bool const in_place = C == collective::reduce_scatter ? b == a + block
                          : C == collective::all_gather   ? a == b + block
                                                          : C == collective::all_reduce && a == b;
    if ((in_place && std::is_same_v<In, Out>) || a + in_size * sizeof(In) <= b || b + out_size * sizeof(Out) <= a)
      continue;
    throw error({.code = error_code::bad_argument,
                 .rank = static_cast<int>(k),
                 .what = join({"input and output of ", name(C), " overlap"}),
                 .way_out = "use two buffers, or see the contract for what may be in place",
                 .where = where});
  }
}

// T is the type in which elements are combined or moved; blocks have n of them.
template <collective C, class T, device D, class How>
void launch_jobs(cuda_local<D> const& ranks, std::vector<T const*> const& in, std::vector<T*> const& out, std::size_t n,
                 How const& how, stream_of<D> stream) {
  if (n == 0) return;
  local_work<C, T, How> work{.in = {}, .out = {}, .plan = {ranks.size()}, .n = n, .how = how};
  std::ranges::copy(in, work.in);
  std::ranges::copy(out, work.out);
  std::size_t const warps = n / device_pack<T> / warp_threads + 1;
  ranks.on().launch(stream, static_cast<std::size_t>(work.plan.jobs()) * warps * warp_threads, work);
}

template <collective C, class T, device D, class In, class Out>
void move_blocks(cuda_local<D> const& ranks, In& in, int ins, std::size_t in_size, Out& out, int outs,
                 std::size_t out_size, std::size_t n, stream_of<D> stream, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  using word = word_of<T>;
  constexpr std::size_t words = words_in<T>;
  auto const from = addresses<word const*>("input", in, ins, in_size, where);
  auto const to = addresses<word*>("output", out, outs, out_size, where);
  expect_apart<C>(from, to, in_size * words, out_size * words, n * words, where);
  launch_jobs<C, word>(ranks, from, to, n * words, word_moves, stream);
}

template <collective C, class T, device D, class In, class Out, class Op>
void reduce_jobs(cuda_local<D> const& ranks, In& in, std::size_t in_size, Out& out, std::size_t n, Op const& op,
                 stream_of<D> stream, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  static_assert(
      C == collective::reduce_scatter || !has_finish<Op, accumulator_for<Op, T>>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  using form = device_form<Op, T>;
  auto const from = addresses<form const*>("input", in, ranks.size(), in_size, where);
  auto const to = addresses<form*>("output", out, ranks.size(), n, where);
  expect_apart<C>(from, to, in_size, n, n, where);
  launch_jobs<C, form>(ranks, from, to, n, in_stages<form>(op, ranks.size()), stream);
}

template <class Buffers>
std::size_t size_of_first(Buffers const& buffers) {
  return buffers.size() > 0 ? static_cast<std::size_t>(buffers[0].size()) : 0;
}

}  // namespace detail

// All of these take `in` and `out`, the buffers of the ranks in rank order (or the one of a root), whose sizes and meaning
// are those of the collective of the same name. `op` is an operation, or fused{operation, prologue, epilogue}, which then
// counts alone. Results have the bits of one_shot on the host; see cuda_combine for what a device may fuse.
// Ordered on `stream`. Throw error: bad_argument before anything is launched; system.

// In place where in[r] is out[r], of one type. One pass: every element of every rank is read once and written once. It implements
// one_shot and two_shot, whose bits are the same.
//
//   tutti::cuda_device gpu;
//   tutti::cuda_local ranks(gpu, 4);
//   tutti::all_reduce(ranks, gradients, gradients, tutti::mean{}, stream);
template <device D, device_buffers In, device_buffers Out, class Op = sum>
void all_reduce(cuda_local<D> const& ranks, In& in, Out& out, Op const& op = {}, stream_of<D> stream = {},
                std::source_location where = std::source_location::current()) {
  using T = detail::device_form<Op, device_element<In>>;
  using U = detail::device_form<Op, device_element<Out>>;
  std::size_t const n = detail::size_of_first(in);
  auto const from = detail::addresses<T const*>("input", in, ranks.size(), n, where);
  auto const to = detail::addresses<U*>("output", out, ranks.size(), n, where);
  detail::expect_apart<collective::all_reduce>(from, to, n, n, n, where);
  cuda_combine(ranks.on(), stream, std::span<T const* const>(from), std::span<U* const>(to), n,
               detail::in_stages<T>(op, ranks.size()));
}

// `out` is the buffer of the root, and may be that of its input.
template <device D, device_buffers In, device_buffer Out, class Op = sum>
void reduce(cuda_local<D> const& ranks, In& in, Out& out, Op const& op = {}, stream_of<D> stream = {},
            std::source_location where = std::source_location::current()) {
  using T = detail::device_form<Op, device_element<In>>;
  auto const from = detail::addresses<T const*>("input", in, ranks.size(), out.size(), where);
  using U = detail::device_form<Op, device_value<Out>>;
  U* const to[] = {detail::to_device_form<Op>(device_data(out))};
  cuda_combine(ranks.on(), stream, std::span<T const* const>(from), std::span<U* const>(to), out.size(),
               detail::in_stages<T>(op, ranks.size()));
}

// `in` is the buffer of the root.
template <device D, device_buffer In, device_buffers Out>
void broadcast(cuda_local<D> const& ranks, In& in, Out& out, stream_of<D> stream = {},
               std::source_location where = std::source_location::current()) {
  using T = device_element<Out>;
  static_assert(std::is_same_v<device_value<In>, T>, "inputs and outputs have different element types");
  using word = detail::word_of<T>;
  word const* const from[] = {reinterpret_cast<word const*>(device_data(in))};
  auto const to = detail::addresses<word*>("output", out, ranks.size(), in.size(), where);
  cuda_combine(ranks.on(), stream, std::span<word const* const>(from), std::span<word* const>(to),
               in.size() * detail::words_in<T>, detail::word_moves);
}

// In place where out[r] is block r of in[r].
template <device D, device_buffers In, device_buffers Out, class Op = sum>
void reduce_scatter(cuda_local<D> const& ranks, In& in, Out& out, Op const& op = {}, stream_of<D> stream = {},
                    std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(out), size = static_cast<std::size_t>(ranks.size());
  detail::reduce_jobs<collective::reduce_scatter, device_element<In>>(ranks, in, n * size, out, n, op, stream, where);
}

// In place where in[r] is block r of out[r].
template <device D, device_buffers In, device_buffers Out>
void all_gather(cuda_local<D> const& ranks, In& in, Out& out, stream_of<D> stream = {},
                std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in), size = static_cast<std::size_t>(ranks.size());
  detail::move_blocks<collective::all_gather, device_element<In>>(ranks, in, ranks.size(), n, out, ranks.size(),
                                                                  n * size, n, stream, where);
}

// `out` is the buffer of the root.
template <device D, device_buffers In, device_buffer Out>
void gather(cuda_local<D> const& ranks, In& in, Out& out, stream_of<D> stream = {},
            std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in), size = static_cast<std::size_t>(ranks.size());
  std::span const root(&out, 1);
  detail::move_blocks<collective::gather, device_element<In>>(ranks, in, ranks.size(), n, root, 1, n * size, n, stream,
                                                              where);
}

// `in` is the buffer of the root.
template <device D, device_buffer In, device_buffers Out>
void scatter(cuda_local<D> const& ranks, In& in, Out& out, stream_of<D> stream = {},
             std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(out), size = static_cast<std::size_t>(ranks.size());
  std::span const root(&in, 1);
  detail::move_blocks<collective::scatter, device_value<In>>(ranks, root, 1, n * size, out, ranks.size(), n, n, stream,
                                                             where);
}

// Not in place.
template <device D, device_buffers In, device_buffers Out>
void all_to_all(cuda_local<D> const& ranks, In& in, Out& out, stream_of<D> stream = {},
                std::source_location where = std::source_location::current()) {
  std::size_t const all = detail::size_of_first(in), n = all / static_cast<std::size_t>(ranks.size());
  if (n * static_cast<std::size_t>(ranks.size()) != all)
    throw error({.code = error_code::bad_argument,
                 .what = join({"all_to_all of ", all, " elements among ", ranks.size(), " ranks"}),
                 .way_out = "pass a block of equal size for each rank",
                 .where = where});
  detail::move_blocks<collective::all_to_all, device_element<In>>(ranks, in, ranks.size(), all, out, ranks.size(), all,
                                                                  n, stream, where);
}

// Not in place.
template <device D, device_buffers In, device_buffers Out, class Op = sum>
void scan(cuda_local<D> const& ranks, In& in, Out& out, Op const& op = {}, stream_of<D> stream = {},
          std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in);
  detail::reduce_jobs<collective::scan, device_element<In>>(ranks, in, n, out, n, op, stream, where);
}

// Not in place. out[0] is not touched.
template <device D, device_buffers In, device_buffers Out, class Op = sum>
void exclusive_scan(cuda_local<D> const& ranks, In& in, Out& out, Op const& op = {}, stream_of<D> stream = {},
                    std::source_location where = std::source_location::current()) {
  std::size_t const n = detail::size_of_first(in);
  detail::reduce_jobs<collective::exclusive_scan, device_element<In>>(ranks, in, n, out, n, op, stream, where);
}

}  // namespace tutti
