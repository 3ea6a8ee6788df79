// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce: one rank gets the combination of all ranks' arrays.
#pragma once

#include "tutti/started/reduction.hpp"

namespace tutti {

// Every rank passes `in` of the same count; the root passes `out` of that count, the others may pass anything, e.g. an
// empty span: it is not touched. out[i] = op over all ranks q of in_q[i].
//
// In place at the root with one buffer for both. Order of combination as for all_reduce.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.9.1.
//
//   tutti::reduce(comm, partial, total, tutti::sum{}, 0);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> reduce(Comm&& comm, In const& in, Out&& out, Op const& op = {}, int root = 0,
                                 options const& o = {}, std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of reduce have different element types");
  std::size_t const count = std::ranges::size(in);
  T const* const from = std::ranges::data(in);
  T* const to = comm.rank() == root ? std::ranges::data(out) : nullptr;
  detail::expect_root(comm, root, where);
  if (comm.rank() == root) {
    detail::expect_size(comm, "the output of reduce", std::ranges::size(out), count, where);
    detail::expect_apart(comm.rank(), from, count * sizeof(T), to, count * sizeof(T), from, where);
  }
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::reduce_alone(from, to, count, op); });
  return detail::reduce_message<collective::reduce, Algorithm>(comm, from, to, count, op, root, o, where);
}

// In place: the root's array is replaced, the others' stay as they are.
template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut, class Op = sum>
  requires operation<Op, value_of<InOut>>
detail::returned_by<Comm> reduce(Comm&& comm, InOut&& data, Op const& op = {}, int root = 0, options const& o = {},
                                 std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, data, data, op, root, o, where);
}

}  // namespace tutti
