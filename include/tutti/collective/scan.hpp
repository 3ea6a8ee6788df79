// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scan and exclusive_scan: rank r gets the combination of the arrays of the ranks up to r, with or without its own.
#pragma once

#include "tutti/started/reduction.hpp"

namespace tutti {
namespace detail {

template <collective C, class Algorithm, class Comm, class In, class Out, class Op>
returned_by<Comm> prefix(Comm& comm, In const& in, Out& out, Op const& op, options const& o,
                         std::source_location where) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of a scan have different element types");
  static_assert(!has_finish<Op, accumulator_for<Op, T>>,
                "an operation with an epilogue, such as mean, has no meaning for the "
                "prefixes of a scan; use tutti::sum and divide");
  std::size_t const count = std::ranges::size(in);
  T const* const from = std::ranges::data(in);
  T* const to = std::ranges::data(out);
  expect_size(comm, "the output of a scan", std::ranges::size(out), count, where);
  expect_apart(comm.rank(), from, count * sizeof(T), to, count * sizeof(T), from, where);
  if (comm.size() > 1) return reduce_message<C, Algorithm>(comm, from, to, count, op, 0, o, where);
  return call_alone(comm, [=] {
    if (C == collective::scan) reduce_alone(from, to, count, op);
  });
}

}  // namespace detail

// Every rank passes `in` and `out` of the same count; out_r[i] = op over ranks 0..r of in_q[i], in rank order.
// In place with one buffer. Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.11.1.
//
//   tutti::scan(comm, counts, ends);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> scan(Comm&& comm, In const& in, Out&& out, Op const& op = {}, options const& o = {},
                               std::source_location where = std::source_location::current()) {
  return detail::prefix<collective::scan, Algorithm>(comm, in, out, op, o, where);
}
template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut, class Op = sum>
  requires operation<Op, value_of<InOut>>
detail::returned_by<Comm> scan(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
                               std::source_location where = std::source_location::current()) {
  return detail::prefix<collective::scan, Algorithm>(comm, data, data, op, o, where);
}

// The same over ranks 0..r-1. Rank 0's output is not touched: fill it with the identity beforehand where that matters.
// See MPI-4.1, 6.11.2.
//
//   std::array<std::size_t, 1> offset{0};
//   tutti::exclusive_scan(comm, counts, offset);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out, class Op = sum>
  requires operation<Op, value_of<In>>
detail::returned_by<Comm> exclusive_scan(Comm&& comm, In const& in, Out&& out, Op const& op = {}, options const& o = {},
                                         std::source_location where = std::source_location::current()) {
  return detail::prefix<collective::exclusive_scan, Algorithm>(comm, in, out, op, o, where);
}
template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut, class Op = sum>
  requires operation<Op, value_of<InOut>>
detail::returned_by<Comm> exclusive_scan(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
                                         std::source_location where = std::source_location::current()) {
  return detail::prefix<collective::exclusive_scan, Algorithm>(comm, data, data, op, o, where);
}

}  // namespace tutti
