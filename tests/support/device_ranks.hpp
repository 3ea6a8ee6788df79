// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of ranks that pass a buffer of their device each, against those of their host communicator by one_shot, bit by
// bit. Every rank calls these checks; each returns how many elements are wrong at this one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/types_and_ops.hpp"
#include "tutti/collective/device_collectives.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

inline options const on_host_by_one_shot{.algorithm = algorithm_id::one_shot};

template <class Ranks, class Comm>
struct checked_ranks {
  using D = typename Ranks::device_type;

  Ranks& ranks;
  Comm& comm;
  stream_of<D> stream{};

  device_options<D> how(algorithm_id algorithm = algorithm_id::automatic) const {
    return {.stream = stream, .algorithm = algorithm};
  }

  // device(in, out) on arrays of the device; host(in, out) on vectors. The output begins as the values of rank 99.
  template <class T, class Device, class Host>
  int differ(std::size_t ins, std::size_t outs, Device const& device, Host const& host) const {
    auto const& on = ranks.on();
    auto const in = uneven_values<T>(comm.rank(), ins);
    std::vector<T> expected = uneven_values<T>(99, outs), got = expected;
    device_array<D, T> const from(on, ins);
    device_array<D, T> to(on, outs);
    on.copy(stream, from.data(), in.data(), ins * sizeof(T));
    on.copy(stream, to.data(), got.data(), outs * sizeof(T));
    device(from, to);
    on.copy(stream, got.data(), to.data(), outs * sizeof(T));
    ranks.work(stream).wait();
    host(in, expected);
    return different(ranks_values<T>{got}, ranks_values<T>{expected});
  }

  template <class T, class Op>
  int wrong_reductions(std::size_t n, Op const& op) const {
    std::size_t const all = n * static_cast<std::size_t>(comm.size());
    int wrong = 0;
    for (auto const algorithm : {algorithm_id::automatic, algorithm_id::one_shot, algorithm_id::two_shot}) {
      auto const host = [&](auto& in, auto& out) { all_reduce(comm, in, out, op, on_host_by_one_shot); };
      wrong += differ<T>(n, n, [&](auto& in, auto& out) { all_reduce(ranks, in, out, op, how(algorithm)); }, host);
      wrong += differ<T>(
          n, n,
          [&](auto& in, auto& out) {
            ranks.on().copy(stream, out.data(), in.data(), n * sizeof(T));
            all_reduce(ranks, out, op, how(algorithm));
          },
          host);
    }
    for (int const root : {0, comm.size() - 1})
      wrong += differ<T>(
          n, n, [&](auto& in, auto& out) { reduce(ranks, in, out, op, root, how()); },
          [&](auto& in, auto& out) { reduce(comm, in, out, op, root, on_host_by_one_shot); });
    wrong += differ<T>(
        all, n, [&](auto& in, auto& out) { reduce_scatter(ranks, in, out, op, how()); },
        [&](auto& in, auto& out) { reduce_scatter(comm, in, out, op, on_host_by_one_shot); });
    auto const uneven = uneven_counts(n);
    wrong += differ<T>(
        sum_of(uneven), uneven[own()],
        [&](auto& in, auto& out) { reduce_scatter_v(ranks, in, out, uneven, op, how()); },
        [&](auto& in, auto& out) { reduce_scatter_v(comm, in, out, uneven, op, on_host_by_one_shot); });
    if constexpr (!has_finish<Op, accumulator_for<Op, T>>) {
      wrong += differ<T>(
          n, n, [&](auto& in, auto& out) { scan(ranks, in, out, op, how()); },
          [&](auto& in, auto& out) { scan(comm, in, out, op, on_host_by_one_shot); });
      wrong += differ<T>(
          n, n, [&](auto& in, auto& out) { exclusive_scan(ranks, in, out, op, how()); },
          [&](auto& in, auto& out) { exclusive_scan(comm, in, out, op, on_host_by_one_shot); });
    }
    return wrong;
  }

  template <class T>
  int wrong_moves(std::size_t n) const {
    auto const p = static_cast<std::size_t>(comm.size());
    int wrong = 0;
    wrong += differ<T>(
        n, n * p, [&](auto& in, auto& out) { all_gather(ranks, in, out, how()); },
        [&](auto& in, auto& out) { all_gather(comm, in, out, on_host_by_one_shot); });
    wrong += differ<T>(
        n * p, n * p, [&](auto& in, auto& out) { all_to_all(ranks, in, out, how()); },
        [&](auto& in, auto& out) { all_to_all(comm, in, out, on_host_by_one_shot); });
    wrong += differ<T>(
        n * p, n * p,
        [&](auto& in, auto& out) {
          ranks.on().copy(stream, out.data(), in.data(), n * p * sizeof(T));
          all_to_all(ranks, out, out, how());
        },
        [&](auto& in, auto& out) { all_to_all(comm, in, out, on_host_by_one_shot); });
    for (int const root : {0, comm.size() - 1}) {
      wrong += differ<T>(
          0, n, [&](auto&, auto& out) { broadcast(ranks, out, root, how()); },
          [&](auto&, auto& out) { broadcast(comm, out, root, on_host_by_one_shot); });
      wrong += differ<T>(
          n, n * p, [&](auto& in, auto& out) { gather(ranks, in, out, root, how()); },
          [&](auto& in, auto& out) { gather(comm, in, out, root, on_host_by_one_shot); });
      wrong += differ<T>(
          n * p, n, [&](auto& in, auto& out) { scatter(ranks, in, out, root, how()); },
          [&](auto& in, auto& out) { scatter(comm, in, out, root, on_host_by_one_shot); });
    }
    barrier(ranks, how());
    return wrong + wrong_uneven_moves<T>(n);
  }

  // Rank q's block has n + q elements, and that of the last rank none.
  template <class T>
  int wrong_uneven_moves(std::size_t n) const {
    auto const counts = uneven_counts(n);
    std::size_t const all = sum_of(counts), mine = counts[own()];
    int wrong = 0;
    wrong += differ<T>(
        mine, all, [&](auto& in, auto& out) { all_gather_v(ranks, in, out, counts, {}, how()); },
        [&](auto& in, auto& out) { all_gather_v(comm, in, out, counts, {}, on_host_by_one_shot); });
    for (int const root : {0, comm.size() - 1}) {
      wrong += differ<T>(
          mine, all, [&](auto& in, auto& out) { gather_v(ranks, in, out, counts, {}, root, how()); },
          [&](auto& in, auto& out) { gather_v(comm, in, out, counts, {}, root, on_host_by_one_shot); });
      wrong += differ<T>(
          all, mine, [&](auto& in, auto& out) { scatter_v(ranks, in, counts, out, {}, root, how()); },
          [&](auto& in, auto& out) { scatter_v(comm, in, counts, out, {}, root, on_host_by_one_shot); });
    }
    // Rank a sends n + a + 2 b elements to rank b, with gaps where they arrive.
    std::vector<std::size_t> sent, received, places;
    std::size_t end = 0;
    for (std::size_t q = 0; q < counts.size(); ++q) {
      sent.push_back(n + own() + 2 * q);
      received.push_back(n + q + 2 * own());
      places.push_back(end + 3);
      end += received.back() + 3;
    }
    return wrong + differ<T>(
                       sum_of(sent), end,
                       [&](auto& in, auto& out) { all_to_all_v(ranks, in, sent, out, received, {}, places, how()); },
                       [&](auto& in, auto& out) {
                         all_to_all_v(comm, in, sent, out, received, {}, places, on_host_by_one_shot);
                       });
  }

 private:
  std::size_t own() const { return static_cast<std::size_t>(comm.rank()); }
  static std::size_t sum_of(std::vector<std::size_t> const& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t{0});
  }
  std::vector<std::size_t> uneven_counts(std::size_t n) const {
    std::vector<std::size_t> out;
    for (int q = 0; q < comm.size(); ++q) out.push_back(q + 1 < comm.size() ? n + static_cast<std::size_t>(q) : 0);
    return out;
  }
};
template <class Ranks, class Comm>
checked_ranks(Ranks&, Comm&) -> checked_ranks<Ranks, Comm>;

}  // namespace tutti::testing
