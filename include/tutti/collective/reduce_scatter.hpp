// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce_scatter and reduce_scatter_v: every rank gets its block of the combination of all ranks' arrays.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/collective/received_blocks.hpp"

namespace tutti {

// Combines the arrays of all ranks element by element; each rank gets a block: out[i] = op over all ranks q of
// in_q[rank * n + i].
//
// Each rank passes    `in` of n * size elements, n equal on all ranks, and `out` of n
// In place            `out` is this rank's block of `in`. Otherwise they must not overlap.
// Order, errors       as all_reduce
// Cost                p ranks, arrays of b bytes; every rank sends and combines b (p-1)/p bytes: one_shot in 1 hop of
//                     p-1 messages, recursive_halving in log2 p hops, ring and pairwise in p-1 hops
// Source              MPI-4.1, 6.10.1
//
//   tutti::reduce_scatter(comm, gradient, shard);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out, class Op = sum>
  requires detail::host_ranks<Comm>
auto reduce_scatter(Comm&& comm, In&& in, Out&& out, Op const& op = {}, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_arrays<collective::reduce_scatter, Algorithm>(comm, detail::inputs(in),
                                                                            detail::elements(out), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto reduce_scatter(Comm&& comm, In&& in, Out&& out, options const& o,
                    std::source_location where = std::source_location::current()) {
  return reduce_scatter<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, o, where);
}

// By value: returns this rank's block. The size of `in` is a multiple of the number of ranks. Blocking calls only.
//
//   std::vector<float> const shard = tutti::reduce_scatter(comm, gradient, tutti::mean{});
template <class Algorithm = automatic, class Comm, class In, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto reduce_scatter(
    Comm&& comm, In&& in, Op const& op = {}, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In, Op>()) {
    using T = detail::element_in<In>;
    auto const all = detail::inputs(in);
    auto const ranks = static_cast<std::size_t>(comm.size());
    if (comm.size() > 0 && all.size() % ranks != 0)
      detail::refuse_unequal_blocks(comm.rank(), comm.size(), collective::reduce_scatter, all.size(), where);
    return detail::filled<T>(all.size() / ranks, [&](std::span<T> out) {
      detail::perform_on_arrays<collective::reduce_scatter, Algorithm>(comm, all, out, op, 0, o, where);
    });
  }
}
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto reduce_scatter(
    Comm&& comm, In&& in, options const& o, std::source_location where = std::source_location::current()) {
  return reduce_scatter<Algorithm>(comm, std::forward<In>(in), sum{}, o, where);
}

// Blocks of different sizes: every rank passes the same `counts` (elements of each rank's block), which are adjacent in
// `in`; `out` has counts[rank] elements. All else as reduce_scatter. See MPI-4.1, 6.10.2.
//
//   tutti::reduce_scatter_v(comm, gradient, shard, counts);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out, class Op = sum>
  requires detail::host_ranks<Comm>
auto reduce_scatter_v(Comm&& comm, In&& in, Out&& out, detail::count_list<collective::reduce_scatter> const& counts,
                      Op const& op = {}, options const& o = {},
                      std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_blocks<collective::reduce_scatter, Algorithm>(comm, detail::inputs(in), {counts},
                                                                            detail::elements(out), {}, op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto reduce_scatter_v(Comm&& comm, In&& in, Out&& out, detail::count_list<collective::reduce_scatter> const& counts,
                      options const& o, std::source_location where = std::source_location::current()) {
  return reduce_scatter_v<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), counts, sum{}, o, where);
}

// By value: returns this rank's block. Blocking calls only.
//
//   std::vector<float> const shard = tutti::reduce_scatter_v(comm, gradient, counts);
template <class Algorithm = automatic, class Comm, class In, detail::counts_argument Counts,
          detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto reduce_scatter_v(
    Comm&& comm, In&& in, Counts&& counts, Op const& op = {}, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In, Op>()) {
    using T = detail::element_in<In>;
    auto const all = detail::inputs(in);
    detail::count_list<collective::reduce_scatter> const sizes(counts);
    detail::expect_blocks(comm, collective::reduce_scatter, sizes, all, where);
    return detail::filled<T>(sizes[static_cast<std::size_t>(comm.rank())], [&](std::span<T> out) {
      detail::perform_on_blocks<collective::reduce_scatter, Algorithm>(comm, all, {sizes}, out, {}, op, 0, o, where);
    });
  }
}
template <class Algorithm = automatic, class Comm, class In, detail::counts_argument Counts>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto reduce_scatter_v(
    Comm&& comm, In&& in, Counts&& counts, options const& o,
    std::source_location where = std::source_location::current()) {
  return reduce_scatter_v<Algorithm>(comm, std::forward<In>(in), counts, sum{}, o, where);
}

}  // namespace tutti
