// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on memory of devices among ranks that pass a buffer each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti {

// All of these take what carries them out, such as cuda_ipc, and then what the collective of the same name takes of ranks on
// the host, in the same order: what each rank passes and gets, what may be in place, and who needs to pass what at a root are
// written there. `op` is an operation, or fused{operation, prologue, epilogue}. Where elements are combined, those of `out` may
// be of another type, to which results are rounded; input and output are then two buffers that do not touch.
//
// Ordered on options.stream, and not run yet when they return; buffers stay as they are until then, and are not freed
// (cudaFree waits for that by itself, cudaFreeAsync on another stream does not). Contributions are combined
// in rank order by every algorithm that tutti chooses; results have the bits of one_shot on the host, see cuda_combine
// for what a device may fuse. An algorithm is chosen by its type, as in all_reduce<ring>, or by its id out of a list of
// types, as in all_reduce<list<ring, two_shot>>, where those that carry calls out have it; then results have the bits
// of that algorithm on the host. Only what is named is compiled.
// Throw error: bad_argument before anything is launched; mismatch, timeout, rank_lost, rank_left, system, of this call
// or one before.

//   tutti::all_reduce(ranks, gradient, tutti::mean{}, {.stream = stream});
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void all_reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  detail::expect_size(ranks, "the output of all_reduce", out.size(), n, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  detail::combine_on_device<Algorithm, collective::all_reduce>(
      ranks, detail::device_request<collective::all_reduce, T, Op>(how, n), from, detail::message_of(n), to,
      detail::message_of(n), op, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, device_value<InOut>>
void all_reduce(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  all_reduce<Algorithm>(ranks, data, data, op, how, where);
}

template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void reduce(R& ranks, In const& in, Out&& out, Op const& op = {}, int root = 0,
            detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = in.size();
  T const* const from = device_data(in);
  detail::expect_root(ranks, root, where);
  auto* const to = ranks.rank() == root ? device_data(out) : nullptr;
  if (to != nullptr) {
    detail::expect_size(ranks, "the output of reduce", out.size(), n, where);
    detail::expect_device_buffers_apart(ranks.rank(), from, n, to, n, from, where);
  }
  detail::combine_on_device<Algorithm, collective::reduce>(
      ranks, detail::device_request<collective::reduce, T, Op>(how, n, root), from, detail::message_of(n), to,
      detail::message_of(n), op, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, device_value<InOut>>
void reduce(R& ranks, InOut&& data, Op const& op = {}, int root = 0, detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  reduce<Algorithm>(ranks, data, data, op, root, how, where);
}

template <class Algorithm = automatic, detail::device_ranks R, device_buffer InOut>
void broadcast(R& ranks, InOut&& data, int root = 0, detail::device_options_of<R> const& how = {},
               std::source_location where = std::source_location::current()) {
  using T = device_value<InOut>;
  std::size_t const n = data.size();
  detail::layout const all = detail::message_of(n * detail::words_in<T>);
  detail::expect_root(ranks, root, where);
  T* const here = device_data(data);
  bool const gives = ranks.rank() == root;
  detail::move_on_device<Algorithm, collective::broadcast, T>(
      ranks, detail::device_request<collective::broadcast, T>(how, n, root), gives ? here : nullptr, all,
      gives ? nullptr : here, all, how, where);
}

template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void reduce_scatter(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  std::size_t const n = out.size(), all = n * static_cast<std::size_t>(ranks.size());
  T const* const from = device_data(in);
  auto* const to = device_data(out);
  bool const in_place = static_cast<void const*>(to) == from + static_cast<std::size_t>(ranks.rank()) * n;
  detail::expect_size(ranks, "the input of reduce_scatter", in.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, all, to, n, in_place ? to : nullptr, where);
  detail::combine_on_device<Algorithm, collective::reduce_scatter>(
      ranks, detail::device_request<collective::reduce_scatter, T, Op>(how, n), from,
      detail::layout::blocks(n, ranks.size()), to, detail::message_of(n), op, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out>
void all_gather(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_gather have different element types");
  std::size_t const n = in.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  T const* const from = device_data(in);
  T* const to = device_data(out);
  bool const in_place = from == to + static_cast<std::size_t>(ranks.rank()) * n;
  detail::expect_size(ranks, "the output of all_gather", out.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, n, to, all, in_place ? to : nullptr, where);
  detail::move_on_device<Algorithm, collective::all_gather, T>(
      ranks, detail::device_request<collective::all_gather, T>(how, n), from, detail::message_of(words), to,
      detail::layout::blocks(words, ranks.size()), how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out>
void gather(R& ranks, In const& in, Out&& out, int root = 0, detail::device_options_of<R> const& how = {},
            std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of gather have different element types");
  std::size_t const n = in.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = device_data(in);
  T* const to = ranks.rank() == root ? device_data(out) : nullptr;
  if (to != nullptr) {
    bool const in_place = from == to + static_cast<std::size_t>(root) * n;
    detail::expect_size(ranks, "the root's output of gather", out.size(), all, where);
    detail::expect_device_buffers_apart(root, from, n, to, all, in_place ? to : nullptr, where);
  }
  detail::move_on_device<Algorithm, collective::gather, T>(
      ranks, detail::device_request<collective::gather, T>(how, n, root), from, detail::message_of(words), to,
      detail::layout::blocks(words, ranks.size()), how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out>
void scatter(R& ranks, In const& in, Out&& out, int root = 0, detail::device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of scatter have different element types");
  std::size_t const n = out.size(), all = n * static_cast<std::size_t>(ranks.size()), words = n * detail::words_in<T>;
  detail::expect_root(ranks, root, where);
  T const* const from = ranks.rank() == root ? device_data(in) : nullptr;
  T* const to = device_data(out);
  if (from != nullptr) {
    bool const in_place = to == from + static_cast<std::size_t>(root) * n;
    detail::expect_size(ranks, "the root's input of scatter", in.size(), all, where);
    detail::expect_device_buffers_apart(root, from, all, to, n, in_place ? to : nullptr, where);
  }
  detail::move_on_device<Algorithm, collective::scatter, T>(
      ranks, detail::device_request<collective::scatter, T>(how, n, root), from,
      detail::layout::blocks(words, ranks.size()), to, detail::message_of(words), how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out>
void all_to_all(R& ranks, In const& in, Out&& out, detail::device_options_of<R> const& how = {},
                std::source_location where = std::source_location::current()) {
  using T = device_value<In const>;
  static_assert(std::is_same_v<T, device_value<Out>>, "input and output of all_to_all have different element types");
  std::size_t const all = in.size(), p = static_cast<std::size_t>(ranks.size()), n = all / p;
  if (all % p != 0)
    detail::refuse(
        ranks.rank(),
        detail::join({"the input of all_to_all has ", all, " elements, which ", p, " ranks cannot share equally"}),
        "use a multiple of the number of ranks, or all_to_all_v", where);
  T const* const from = device_data(in);
  T* const to = device_data(out);
  detail::layout const blocks = detail::layout::blocks(n * detail::words_in<T>, ranks.size());
  detail::expect_size(ranks, "the output of all_to_all", out.size(), all, where);
  detail::expect_device_buffers_apart(ranks.rank(), from, all, to, all, from, where);
  detail::move_on_device<Algorithm, collective::all_to_all, T>(
      ranks, detail::device_request<collective::all_to_all, T>(how, n), from, blocks, to, blocks, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void scan(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<Algorithm, collective::scan>(ranks, in, out, op, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, device_value<InOut>>
void scan(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<Algorithm, collective::scan>(ranks, data, data, op, how, where);
}

template <class Algorithm = automatic, detail::device_ranks R, device_buffer In, device_buffer Out, class Op = sum>
  requires detail::device_operation<Op, device_value<In const>>
void exclusive_scan(R& ranks, In const& in, Out&& out, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<Algorithm, collective::exclusive_scan>(ranks, in, out, op, how, where);
}
template <class Algorithm = automatic, detail::device_ranks R, device_buffer InOut, class Op = sum>
  requires detail::device_operation<Op, device_value<InOut>>
void exclusive_scan(R& ranks, InOut&& data, Op const& op = {}, detail::device_options_of<R> const& how = {},
                    std::source_location where = std::source_location::current()) {
  detail::prefix_on_device<Algorithm, collective::exclusive_scan>(ranks, data, data, op, how, where);
}

// What was given to the stream after it does not begin before all ranks have reached it.
template <detail::device_ranks R>
void barrier(R& ranks, detail::device_options_of<R> const& how = {},
             std::source_location where = std::source_location::current()) {
  detail::move_on_device<automatic, collective::barrier, std::uint8_t>(
      ranks, detail::device_request<collective::barrier, std::uint8_t>(how, 0), nullptr, detail::message_of(0), nullptr,
      detail::message_of(0), how, where);
}

}  // namespace tutti
