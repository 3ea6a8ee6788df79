// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce_scatter and reduce_scatter_v: every rank gets its block of the combination of all ranks' arrays.
#pragma once

#include "tutti/started/movement.hpp"
#include "tutti/started/reduction.hpp"

namespace tutti {

// Every rank passes `in` of n * size elements, n equal on all ranks, and `out` of n; out[i] = op over all ranks q of
// in_q[r * n + i]. In place: `out` is this rank's block of `in`. Otherwise they must not overlap.
// Order of combination as for all_reduce.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.10.1.
//
//   tutti::reduce_scatter(comm, gradient, shard);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> reduce_scatter(Comm&& comm, In const& in, Out&& out, Op const& op = {}, options const& o = {},
                                         std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of reduce_scatter have different element types");
  std::size_t const count = std::ranges::size(out), ranks = static_cast<std::size_t>(comm.size());
  T const* const from = std::ranges::data(in);
  T* const to = std::ranges::data(out);
  bool const in_place = to == from + static_cast<std::size_t>(comm.rank()) * count;
  detail::expect_size(comm, "the input of reduce_scatter", std::ranges::size(in), count * ranks, where);
  detail::expect_apart(comm.rank(), from, count * ranks * sizeof(T), to, count * sizeof(T), in_place ? to : nullptr,
                       where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::reduce_alone(from, to, count, op); });
  detail::check_algorithm<Algorithm, collective::reduce_scatter, Op>(comm, o, where);
  return detail::call_on<Algorithm>(
      comm, o, where,
      detail::memory_of(collective::reduce_scatter, "",
                        [=](auto& use) {
                          use.reads(from, count * ranks * sizeof(T));
                          use.writes(to, count * sizeof(T));
                        }),
      [=](auto& all, Op const& kept) {
        detail::request const r = detail::reduction_request<collective::reduce_scatter, Algorithm, T, Op>(o, count);
        auto call = detail::open(all, r, o, detail::type_name<T>(), detail::name_of<Op>(), where);
        detail::reducing<T, Op> const body{kept};
        if (call.plan().how == protocol::packet)
          return detail::execute_packets<collective::reduce_scatter>(all.engine(), call, r, body, from, to);
        detail::layout const blocks = detail::layout::blocks(count, all.size());
        detail::surfaces<T> memory{.input = {from, blocks},
                                   .output = {to, blocks.only(all.rank())},
                                   .scratch = {nullptr, blocks},
                                   .in_place = in_place};
        detail::execute<Algorithm, collective::reduce_scatter>(all.engine(), call, r, body, memory);
      },
      op);
}

// Blocks of their own sizes: every rank passes the same `counts` (elements of each rank's block), which follow each other in
// `in`; `out` has counts[rank]. See MPI-4.1, 6.10.2.
//
//   tutti::reduce_scatter_v(comm, gradient, shard, counts);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> reduce_scatter_v(Comm&& comm, In const& in, Out&& out, std::span<std::size_t const> counts,
                                           Op const& op = {}, options const& o = {},
                                           std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of reduce_scatter_v have different element types");
  int const rank = comm.rank();
  detail::layout const blocks =
      detail::ragged_layout(comm, 0, "reduce_scatter_v's", counts, {}, std::ranges::size(in), 1, where);
  detail::expect_size(comm, "the input of reduce_scatter_v", std::ranges::size(in), blocks.end(), where);
  detail::expect_size(comm, "the output of reduce_scatter_v", std::ranges::size(out),
                      counts[static_cast<std::size_t>(rank)], where);
  T const* const from = std::ranges::data(in);
  T* const to = std::ranges::data(out);
  bool const in_place = to == from + blocks.at(0, rank).begin;
  detail::expect_apart(rank, from, blocks.end() * sizeof(T), to, std::ranges::size(out) * sizeof(T),
                       in_place ? to : nullptr, where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::reduce_alone(from, to, blocks.end(), op); });
  detail::check_algorithm<Algorithm, collective::reduce_scatter, Op>(comm, o, where);
  detail::request const r =
      detail::ragged(detail::reduction_request<collective::reduce_scatter, Algorithm, T, Op>(o, 0), counts);
  return detail::call_on<Algorithm>(
      comm, o, where,
      detail::memory_of(collective::reduce_scatter, "_v",
                        [=](auto& use) {
                          use.reads(from, blocks.end() * sizeof(T));
                          use.writes(to, blocks.at(0, rank).count * sizeof(T));
                        }),
      [=](auto& all, Op const& kept) {
        auto call = detail::open(all, r, o, detail::type_name<T>(), detail::name_of<Op>(), where);
        detail::surfaces<T> memory{.input = {from, blocks},
                                   .output = {to, blocks.only(rank)},
                                   .scratch = {nullptr, blocks},
                                   .in_place = in_place};
        detail::execute<Algorithm, collective::reduce_scatter>(all.engine(), call, r, detail::reducing<T, Op>{kept},
                                                               memory);
      },
      op);
}

}  // namespace tutti
