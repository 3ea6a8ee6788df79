// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce: every rank gets the combination of all ranks' arrays.
#pragma once

#include "tutti/started/reduction.hpp"

namespace tutti {

// Every rank passes `in` and `out` of the same count, equal on all ranks; out[i] = op over all ranks q of in_q[i].
//
// In place with one buffer (or two that begin at the same element); otherwise they must not overlap. Count 0 is legal.
// Order of combination: any, if the operation is commutative; else rank order. The grouping depends on the algorithm, the
// count, the number of ranks and the nodes that they are on alone, so the result has the same bits on every rank and in
// every run.
// Throws error: bad_argument before anything is sent; mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.9.6.
//
//   tutti::all_reduce(comm, gradient);
//   tutti::all_reduce(comm, in, out, tutti::max{});
//   tutti::all_reduce<tutti::ring>(comm, gradient);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> all_reduce(Comm&& comm, In const& in, Out&& out, Op const& op = {}, options const& o = {},
                                     std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of all_reduce have different element types");
  std::size_t const count = std::ranges::size(in);
  T const* const from = std::ranges::data(in);
  T* const to = std::ranges::data(out);
  detail::expect_size(comm, "the output of all_reduce", std::ranges::size(out), count, where);
  detail::expect_apart(comm.rank(), from, count * sizeof(T), to, count * sizeof(T), from, where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::reduce_alone(from, to, count, op); });
  return detail::reduce_message<collective::all_reduce, Algorithm>(comm, from, to, count, op, 0, o, where);
}

template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut, class Op = sum>
  requires operation<Op, value_of<InOut>>
detail::returned_by<Comm> all_reduce(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
                                     std::source_location where = std::source_location::current()) {
  return all_reduce<Algorithm>(comm, data, data, op, o, where);
}

}  // namespace tutti
