// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers, structs and const arrays: collectives return their results.
// labels: processes
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

struct settings_of_run {
  int steps = 0;
  double rate = 0;
  friend bool operator==(settings_of_run const&, settings_of_run const&) = default;
};
struct widest {
  static constexpr bool commutative = true;
  settings_of_run operator()(settings_of_run const& a, settings_of_run const& b) const {
    return a.steps < b.steps ? b : a;
  }
};

int sum_to(int ranks) { return ranks * (ranks + 1) / 2; }

template <class Comm>
void check_values(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), last = ranks - 1;
  int const mine = rank + 1;

  int const total = all_reduce(comm, mine);
  expect(total == sum_to(ranks), "all_reduce returns the sum of numbers");
  expect(all_reduce(comm, rank + 1, tutti::max{}) == ranks, "of temporaries too");
  expect(all_reduce(comm, mine, {.timeout = 5s}) == sum_to(ranks), "with options and no operation");
  expect(all_reduce<ring>(comm, mine, tutti::min{}, {.timeout = 5s}) == 1, "with both and an algorithm");
  expect(all_reduce(comm, rank == last) == true, "bool is or");
  expect(all_reduce(comm, settings_of_run{rank, 0.5}, widest{}) == settings_of_run{last, 0.5}, "structs");
  expect(mine == rank + 1, "the argument stays as it was");

  std::optional<int> const at_root = reduce(comm, mine, last);
  expect(at_root == (rank == last ? std::optional(sum_to(ranks)) : std::nullopt), "reduce returns it at the root");
  expect(reduce(comm, mine, tutti::max{}, 0).has_value() == (rank == 0), "with an operation");

  settings_of_run const config = broadcast(comm, rank == last ? settings_of_run{7, 0.25} : settings_of_run{}, last);
  expect(config == settings_of_run{7, 0.25}, "broadcast returns the root's");
  int number = rank == 0 ? 5 : 0;
  number = broadcast(comm, number);
  expect(number == 5, "a number of a variable too");

  std::vector<int> expected(static_cast<std::size_t>(ranks));
  std::iota(expected.begin(), expected.end(), 1);
  expect(all_gather(comm, mine) == expected, "all_gather returns one of each rank");
  expect(gather(comm, mine, last) == (rank == last ? expected : std::vector<int>()), "gather at the root alone");
  expect(scatter(comm, rank == 0 ? expected : std::vector<int>(), 0) == mine, "scatter deals out one each");
  std::vector<bool> flags(static_cast<std::size_t>(ranks));
  flags[0] = true;
  expect(all_gather(comm, rank == 0) == flags, "bool comes in a vector of bits");

  expect(scan(comm, mine) == sum_to(mine), "scan");
  expect(exclusive_scan(comm, mine) == sum_to(rank), "exclusive_scan begins with the identity");
  expect(exclusive_scan(comm, mine, product{}, {.timeout = 5s}) > 0, "that of the operation");
}

template <class Comm>
void check_arrays(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), last = ranks - 1;
  auto const size = static_cast<std::size_t>(ranks);
  std::vector<int> const mine{rank, 1};
  int const below = sum_to(ranks - 1);

  expect(all_reduce(comm, mine) == std::vector{below, ranks}, "an array that is const is not replaced");
  expect(all_reduce(comm, std::vector{rank, 1}) == std::vector{below, ranks}, "nor is one that is temporary");
  expect(all_reduce(comm, std::as_const(mine), {.timeout = 5s}) == std::vector{below, ranks}, "with options");
  expect(all_reduce(comm, std::array{rank}) == std::vector{below}, "results are vectors");
  std::vector<int> kept = mine;
  all_reduce(comm, kept);
  expect(kept == std::vector{below, ranks}, "an array that can be written to is replaced");
  kept = mine;
  all_reduce(comm, std::span(kept), {.timeout = 5s});
  expect(kept == std::vector{below, ranks}, "through a span too, with options and no operation");
  kept = mine;
  std::vector<int> out(2);
  all_reduce(comm, kept, out, {.timeout = 5s});
  expect(out == std::vector{below, ranks} && kept == mine, "so with two arrays");
  reduce(comm, kept, last);
  expect(kept == (rank == last ? out : mine), "reduce in place takes a root alone");
  kept = mine;
  reduce(comm, kept, out, 0);
  expect(kept == mine, "and with two arrays");
  expect(reduce(comm, mine, 0).size() == (rank == 0 ? 2u : 0u), "and by value");

  expect(broadcast(comm, std::as_const(mine), last) == std::vector{last, 1}, "broadcast of a const array");

  std::vector<int> blocks;
  for (int q = 0; q < ranks; ++q) blocks.insert(blocks.end(), {q, 1});
  expect(all_gather(comm, mine) == blocks, "all_gather puts arrays one after the other");
  expect(all_gather(comm, kept) == blocks, "arrays that can be written to as well");
  expect(gather(comm, mine, last) == (rank == last ? blocks : std::vector<int>()), "gather does at the root");
  std::vector<int> const each(size, rank);
  std::vector<int> ranks_in_order(size);
  std::iota(ranks_in_order.begin(), ranks_in_order.end(), 0);
  expect(all_to_all(comm, each) == ranks_in_order, "all_to_all");
  expect(reduce_scatter(comm, blocks) == std::vector{ranks * rank, ranks}, "reduce_scatter returns this rank's block");
  expect(reduce_scatter(comm, blocks, tutti::max{}) == std::vector{rank, 1}, "by an operation");
  expect(scan(comm, mine) == std::vector{sum_to(rank), rank + 1}, "scan");
  expect(exclusive_scan(comm, mine)[1] == rank, "exclusive_scan");
}

template <class Comm>
void check_by_value(Comm& comm) {
  check_values(comm);
  check_arrays(comm);
}

}  // namespace

TEST_CASE("results are returned by value over threads and processes") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_by_value(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_by_value(comm); }));
  }
}
