// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums in calls: every promised equality of bits, against sums that one rank computes alone. Each function is what a
// rank does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

inline constexpr int policy_ranks[] = {1, 2, 3, 4, 8};

// The contribution of `rank`: of very different magnitudes, so that the order of additions matters.
template <class T>
std::vector<T> rounding_numbers(int rank, std::size_t count) {
  using wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::mt19937 random(static_cast<unsigned>(rank) * 1009 + 1);
  std::vector<T> out(count);
  for (T& x : out) {
    wide const whole = static_cast<wide>(random() % 2001) - 1000;
    x = static_cast<T>(whole * static_cast<wide>(1 << (random() % 20)) / 7);
  }
  return out;
}

// What a loop over the contributions of ranks [0, ranks) computes.
template <class T, class Op>
std::vector<T> one_by_one(int ranks, std::size_t count, Op const& op) {
  using A = accumulator_for<Op, T>;
  std::vector<T> out(count);
  std::vector<std::vector<T>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(rounding_numbers<T>(r, count));
  for (std::size_t i = 0; i < count; ++i) {
    A total = static_cast<A>(all[0][i]);
    for (int r = 1; r < ranks; ++r) total = op(total, static_cast<A>(all[static_cast<std::size_t>(r)][i]));
    if constexpr (detail::has_finish<Op, A>) total = op.finish(total, ranks);
    out[i] = static_cast<T>(total);
  }
  return out;
}

// Every call that combines at once gives the result of a loop over the ranks.
template <class T, class Op, class Comm>
void check_left_to_right(Comm& comm, Op const& op) {
  int const p = comm.size(), me = comm.rank();
  for (std::size_t const count : {0u, 1u, 7u, 1000u, sanitized ? 3000u : 20000u}) {  // packets and slices
    auto const expected = one_by_one<T>(p, count, op);
    auto const mine = rounding_numbers<T>(me, count);
    std::vector<T> out(count);
    for (algorithm_id const id : {algorithm_id::automatic, algorithm_id::one_shot, algorithm_id::two_shot}) {
      std::ranges::fill(out, T(0));
      all_reduce(comm, mine, out, op, {.algorithm = id});
      expect(std::ranges::equal(out, expected), "all_reduce adds in another order");
      out = mine;
      all_reduce(comm, out, op, {.algorithm = id});
      expect(std::ranges::equal(out, expected), "all_reduce adds in another order in place");
    }
    for (int const root : {0, p - 1}) {
      reduce(comm, mine, out, op, root);
      if (me == root) expect(std::ranges::equal(out, expected), "reduce adds in another order");
    }
    std::size_t const block = count / static_cast<std::size_t>(p), begin = block * static_cast<std::size_t>(me);
    std::vector<T> part_of_sum(block);
    reduce_scatter(comm, std::span(mine).first(block * static_cast<std::size_t>(p)), part_of_sum, op);
    expect(std::ranges::equal(part_of_sum, std::span(expected).subspan(begin, block)),
           "reduce_scatter adds in another order");
    if constexpr (!detail::has_finish<Op, accumulator_for<Op, T>>) {
      scan(comm, mine, out, op);
      expect(std::ranges::equal(out, one_by_one<T>(me + 1, count, op)), "scan adds in another order");
      exclusive_scan(comm, mine, out, op);
      if (me > 0) expect(std::ranges::equal(out, one_by_one<T>(me, count, op)), "exclusive_scan adds in another order");
    }
  }
}

// The contributions have one sum: that of a loop from the last to the first, whichever rank has which.
template <class T, class Comm>
void check_any_order(Comm& comm) {
  int const p = comm.size();
  std::size_t const count = 1000;
  std::vector<binned<T>> sums(count);
  for (int r = p; r-- > 0;) {
    auto const one = rounding_numbers<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += one[i];
  }
  for (int shift = 0; shift < p; ++shift) {
    auto const got = all_reduce(comm, rounding_numbers<T>((comm.rank() + shift) % p, count), reproducible_sum{});
    for (std::size_t i = 0; i < count; ++i) expect(got[i] == sums[i].value(), "the sum depends on the order of ranks");
  }
}

// The sums of 3000 numbers, of all but the first, and so on.
template <class T>
std::vector<binned<T>> binned_sums(std::size_t first, std::size_t last) {
  auto const all = rounding_numbers<T>(0, 3000);
  std::vector<binned<T>> out(40);
  for (std::size_t k = 0; k < out.size(); ++k)
    for (std::size_t i = std::max(first, k); i < last; ++i) out[k] += all[i];
  return out;
}

// Each rank has a share of the numbers, and all algorithms give the bits of one rank that has them all.
template <class T, class Comm>
void check_any_partition(Comm& comm) {
  auto const expected = binned_sums<T>(0, 3000);
  auto const [begin, count] = part(3000, comm.size(), comm.rank());
  auto const mine = binned_sums<T>(begin, begin + count);
  auto const check = [&](algorithm_id id) {
    std::vector<binned<T>> out(mine.size());
    all_reduce(comm, mine, out, sum{}, {.algorithm = id});
    expect(out == expected, std::string(name(id)) + " gives other bits");
  };
  check(algorithm_id::automatic);
  for (std::size_t id = 1; id <= algorithms::size; ++id)
    if (properties_of(static_cast<algorithm_id>(id), collective::all_reduce)) check(static_cast<algorithm_id>(id));
  using Transport = std::remove_cvref_t<decltype(comm.engine().transport())>;
  if constexpr (detail::has_native_collectives<Transport>) check(algorithm_id::native);
  if constexpr (detail::has_levels<Transport>) check(algorithm_id::two_level);
}

// All ranks get the same bits of a plain sum, and the same again, by each algorithm.
template <class T, class Comm>
void check_same_sums(Comm& comm) {
  std::size_t const count = 1000;
  auto const mine = rounding_numbers<T>(comm.rank(), count);
  std::vector<T> all(count * static_cast<std::size_t>(comm.size()));
  for (std::size_t id = 0; id <= algorithms::size; ++id) {
    auto const algorithm = static_cast<algorithm_id>(id);
    if (id > 0 && !properties_of(algorithm, collective::all_reduce)) continue;
    std::vector<T> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<T> out(count);
      all_reduce(comm, mine, out, sum{}, {.algorithm = algorithm});
      if (repeat == 0) first = out;
      expect(out == first, std::string(name(algorithm)) + " gives other bits in another call");
      all_gather(comm, out, all);
      for (std::size_t i = 0; i < all.size(); ++i)
        expect(all[i] == out[i % count], std::string(name(algorithm)) + " gives other bits on another rank");
    }
  }
}

template <class Comm>
void check_policies_of_sums(Comm& comm) {
  check_left_to_right<float>(comm, rank_ordered{sum{}});
  check_left_to_right<bfloat16>(comm, rank_ordered{sum{}});
  check_left_to_right<double>(comm, rank_ordered{mean{}});
  check_left_to_right<float>(comm, reproducible_sum{});
  check_left_to_right<double>(comm, compensated_sum{});
  check_any_order<float>(comm);
  check_any_order<double>(comm);
  check_any_partition<float>(comm);
  check_any_partition<double>(comm);
  check_same_sums<float>(comm);
}

}  // namespace tutti::testing
