// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums in calls: left to right, independent of the order, of the algorithm and of the number of ranks, compensated.
// labels: threads
#include "tutti/reduce/determinism.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// The contribution of `rank`: of very different magnitudes, so that the order of additions matters.
template <class T>
std::vector<T> rounding_numbers(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) * 1009 + 1);
  std::vector<T> out(count);
  for (T& x : out)
    x = static_cast<T>(static_cast<double>(random() % 2001) - 1000) * static_cast<T>(1 << (random() % 20)) / 7;
  return out;
}

template <class T, class Op>
std::vector<T> one_by_one(int ranks, std::size_t count, Op const& op) {
  using A = accumulator_for<Op, T>;
  std::vector<T> out(count);
  std::vector<std::vector<T>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(rounding_numbers<T>(r, count));
  for (std::size_t i = 0; i < count; ++i) {
    A sum_of_all = static_cast<A>(all[0][i]);
    for (int r = 1; r < ranks; ++r) sum_of_all = op(sum_of_all, static_cast<A>(all[static_cast<std::size_t>(r)][i]));
    out[i] = static_cast<T>(sum_of_all);
  }
  return out;
}

constexpr std::size_t policy_counts[] = {0, 1, 7, 1000, 20000};  // packets and slices

// Every call that combines at once gives the result of a loop over the ranks.
template <class T, class Op, class Comm>
void check_left_to_right(Comm& comm, Op const& op) {
  int const p = comm.size();
  for (std::size_t const count : policy_counts) {
    auto const expected = one_by_one<T>(p, count, op);
    auto const mine = rounding_numbers<T>(comm.rank(), count);
    std::vector<T> out(count);
    for (algorithm_id const id : {algorithm_id::automatic, algorithm_id::one_shot, algorithm_id::two_shot}) {
      std::ranges::fill(out, T(0));
      all_reduce(comm, mine, out, op, {.algorithm = id});
      expect(std::ranges::equal(out, expected), "all_reduce adds in another order");
    }
    reduce(comm, mine, out, op, p - 1);
    if (comm.rank() == p - 1) expect(std::ranges::equal(out, expected), "reduce adds in another order");
    scan(comm, mine, out, op);
    expect(std::ranges::equal(out, one_by_one<T>(comm.rank() + 1, count, op)), "scan adds in another order");
    std::size_t const block = count / static_cast<std::size_t>(p);
    std::vector<T> part_of_sum(block);
    reduce_scatter(comm, std::span(mine).first(block * static_cast<std::size_t>(p)), part_of_sum, op);
    expect(std::ranges::equal(part_of_sum,
                              std::span(expected).subspan(block * static_cast<std::size_t>(comm.rank()), block)),
           "reduce_scatter adds in another order");
  }
}

// The same contributions on other ranks have the same sum.
template <class T, class Comm>
void check_any_order(Comm& comm) {
  std::size_t const count = 1000;
  auto const expected = all_reduce(comm, rounding_numbers<T>(comm.rank(), count), reproducible_sum{});
  for (int shift = 1; shift < comm.size(); ++shift) {
    auto const got =
        all_reduce(comm, rounding_numbers<T>((comm.rank() + shift) % comm.size(), count), reproducible_sum{});
    expect(got == expected, "the sum depends on the order of ranks");
  }
}

// The sum of 3000 numbers, of which each rank has a share, by every algorithm: the same bits whatever the number of ranks.
template <class T, class Comm>
void check_any_partition(Comm& comm, std::vector<binned<T>> const& expected) {
  auto const all = rounding_numbers<T>(0, 3000);
  auto const [begin, count] = part(all.size(), comm.size(), comm.rank());
  std::vector<binned<T>> mine(expected.size());  // the sum of all numbers, of all but the first, and so on
  for (std::size_t k = 0; k < mine.size(); ++k)
    for (std::size_t i = std::max(begin, k); i < begin + count; ++i) mine[k] += all[i];
  for (std::size_t id = 1; id <= algorithms::size; ++id) {
    auto const algorithm = static_cast<algorithm_id>(id);
    if (!properties_of(algorithm, collective::all_reduce)) continue;
    std::vector<binned<T>> out(mine.size());
    all_reduce(comm, mine, out, sum{}, {.algorithm = algorithm});
    expect(out == expected, std::string(name(algorithm)) + " gives other bits");
  }
}

}  // namespace

TEST_CASE("sums from left to right, of binned and of compensated numbers are those of a loop") {
  for (int const ranks : {1, 2, 3, 4, 7, 8}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) {
      check_left_to_right<float>(comm, rank_ordered{sum{}});
      check_left_to_right<float>(comm, reproducible_sum{});
      check_left_to_right<double>(comm, compensated_sum{});
      check_any_order<double>(comm);
    }));
  }
}

TEST_CASE("sums of binned numbers do not depend on the algorithm or the number of ranks") {
  std::vector<binned<double>> expected(40);
  auto const all = rounding_numbers<double>(0, 3000);
  for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += std::span(all).subspan(k);
  for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_any_partition<double>(comm, expected); }));
  }
}

TEST_CASE("an algorithm that sends partial results is refused where the operation combines at once") {
  auto const errors = errors_of(2, [](auto& comm) {
    std::vector<float> data(10);
    all_reduce(comm, data, reproducible_sum{}, {.algorithm = algorithm_id::ring});
  });
  for (error const& e : errors)
    CHECK_NOTHROW(
        expect_error(e, error_code::bad_argument,
                     "ring cannot do all_reduce: it sends partial results, but the operation must combine all"));
}
