// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithms of cuda_local compared with those of the host, for any device. Each check returns the number of wrong
// elements.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "support/device_collectives.hpp"

namespace tutti::testing {

// Whether Algorithm serves C, with this operation.
template <class Algorithm, collective C, class Op>
constexpr bool serves_with() {
  if constexpr (!serves<Algorithm, C>) return false;
  else if constexpr (std::is_void_v<Op>) return true;
  else return is_commutative<Op> || !schedule<Algorithm, C>::needs_commutative;
}

// Block r of each rank's array.
template <class T, class Arrays>
std::vector<std::span<T>> own_blocks(Arrays& arrays, std::size_t n) {
  std::vector<std::span<T>> out;
  for (std::size_t r = 0; r < arrays.size(); ++r) out.emplace_back(arrays[r].data() + r * n, n);
  return out;
}

// The host's ranks choose the algorithm at run time, which is compiled once.
template <class Algorithm, class T, detail::device D, class Reach, class Op>
int wrong_all_reduce(cuda_local<D, Reach> const& ranks, std::size_t n, Op const& op,
                     device_options<D> const& how = {}) {
  int const p = ranks.size();
  options const host{.algorithm = find_algorithm(Algorithm::name)};
  auto const expected =
      on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) { all_reduce(comm, in, out, op, host); });
  int const wrong =
      different(result_on_device<T>(ranks, p, n, p, n,
                                    [&](auto& r, auto& in, auto& out) { all_reduce<Algorithm>(r, in, out, op, how); }),
                expected);
  auto data = to_device(ranks, all_values<T>(p, n));
  all_reduce<Algorithm>(ranks, data, data, op, how);
  return wrong + (n > 0 ? different(to_host(ranks.on(), data), expected) : 0);
}

// Reductions of n elements, or of blocks of n.
template <class Algorithm, class T, detail::device D, class Reach, class Op>
int wrong_reductions(cuda_local<D, Reach> const& ranks, std::size_t n, Op const& op,
                     device_options<D> const& how = {}) {
  int const p = ranks.size();
  std::size_t const all = n * static_cast<std::size_t>(p);
  options const host{.algorithm = find_algorithm(Algorithm::name)};
  int wrong = 0;
  if constexpr (serves_with<Algorithm, collective::all_reduce, Op>())
    wrong += wrong_all_reduce<Algorithm, T>(ranks, n, op, how);
  if constexpr (serves_with<Algorithm, collective::reduce, Op>()) {
    for (int const root : {0, p - 1}) {
      auto const expected =
          on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) { reduce(comm, in, out, op, root, host); });
      wrong += different(
          result_on_device<T>(ranks, p, n, 1, n,
                              [&](auto& r, auto& in, auto& out) { reduce<Algorithm>(r, in, out[0], op, root, how); }),
          {expected[static_cast<std::size_t>(root)]});
    }
  }
  if constexpr (serves_with<Algorithm, collective::reduce_scatter, Op>()) {
    auto const expected =
        on_host<T>(p, all, n, [&](auto& comm, auto& in, auto& out) { reduce_scatter(comm, in, out, op, host); });
    wrong += different(
        result_on_device<T>(ranks, p, all, p, n,
                            [&](auto& r, auto& in, auto& out) { reduce_scatter<Algorithm>(r, in, out, op, how); }),
        expected);
    auto data = to_device(ranks, all_values<T>(p, all));
    auto blocks = own_blocks<T>(data, n);
    reduce_scatter<Algorithm>(ranks, data, blocks, op, how);
    auto const got = to_host(ranks.on(), data);
    for (std::size_t r = 0; n > 0 && r < got.size(); ++r)
      for (std::size_t i = 0; i < n; ++i) wrong += !same_bits<T>(got[r][r * n + i], expected[r][i]);
  }
  if constexpr (!detail::has_finish<Op, accumulator_for<Op, T>>) {
    if constexpr (serves_with<Algorithm, collective::scan, Op>())
      wrong +=
          different(result_on_device<T>(ranks, p, n, p, n,
                                        [&](auto& r, auto& in, auto& out) { scan<Algorithm>(r, in, out, op, how); }),
                    on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) { scan(comm, in, out, op, host); }));
    if constexpr (serves_with<Algorithm, collective::exclusive_scan, Op>())
      wrong += different(
          result_on_device<T>(ranks, p, n, p, n,
                              [&](auto& r, auto& in, auto& out) { exclusive_scan<Algorithm>(r, in, out, op, how); }),
          on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) { exclusive_scan(comm, in, out, op, host); }));
  }
  return wrong;
}

// Collectives that only move data, compared with the independent jobs, which have a test of their own.
template <class Algorithm, class T, detail::device D, class Reach>
int wrong_movements(cuda_local<D, Reach> const& ranks, std::size_t n, device_options<D> const& how = {}) {
  int const p = ranks.size();
  std::size_t const all = n * static_cast<std::size_t>(p);
  int wrong = 0;
  auto const compare = [&](int ins, std::size_t in_count, int outs, std::size_t out_count, auto const& ours,
                           auto const& jobs) {
    wrong += different(result_on_device<T>(ranks, ins, in_count, outs, out_count, ours),
                       result_on_device<T>(ranks, ins, in_count, outs, out_count, jobs));
  };
  if constexpr (serves<Algorithm, collective::broadcast>)
    for (int const root : {0, p - 1})
      compare(
          1, n, p, n, [&](auto& r, auto& in, auto& out) { broadcast<Algorithm>(r, in[0], out, root, how); },
          [&](auto& r, auto& in, auto& out) { broadcast(r, in[0], out, root); });
  if constexpr (serves<Algorithm, collective::all_gather>) {
    compare(
        p, n, p, all, [&](auto& r, auto& in, auto& out) { all_gather<Algorithm>(r, in, out, how); },
        [](auto& r, auto& in, auto& out) { all_gather(r, in, out); });
    auto ours = to_device(ranks, all_values<T>(p, all)), jobs = to_device(ranks, all_values<T>(p, all));
    auto our_blocks = own_blocks<T>(ours, n), jobs_blocks = own_blocks<T>(jobs, n);
    all_gather<Algorithm>(ranks, our_blocks, ours, how);
    all_gather(ranks, jobs_blocks, jobs);
    wrong += different(to_host(ranks.on(), ours), to_host(ranks.on(), jobs));
  }
  if constexpr (serves<Algorithm, collective::gather>)
    for (int const root : {0, p - 1})
      compare(
          p, n, 1, all, [&](auto& r, auto& in, auto& out) { gather<Algorithm>(r, in, out[0], root, how); },
          [&](auto& r, auto& in, auto& out) { gather(r, in, out[0], root); });
  if constexpr (serves<Algorithm, collective::scatter>)
    for (int const root : {0, p - 1})
      compare(
          1, all, p, n, [&](auto& r, auto& in, auto& out) { scatter<Algorithm>(r, in[0], out, root, how); },
          [&](auto& r, auto& in, auto& out) { scatter(r, in[0], out, root); });
  if constexpr (serves<Algorithm, collective::all_to_all>)
    compare(
        p, all, p, all, [&](auto& r, auto& in, auto& out) { all_to_all<Algorithm>(r, in, out, how); },
        [](auto& r, auto& in, auto& out) { all_to_all(r, in, out); });
  return wrong;
}

}  // namespace tutti::testing
