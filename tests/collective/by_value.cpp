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
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
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

// Rank r has r elements of its own number.
std::vector<int> own_block(int rank) { return std::vector<int>(static_cast<std::size_t>(rank), rank); }

template <class Comm>
void check_uneven_blocks(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), last = ranks - 1;
  auto const size = static_cast<std::size_t>(ranks);
  std::vector<int> everything;
  std::vector<std::size_t> counts;
  for (int q = 0; q < ranks; ++q) {
    auto const block = own_block(q);
    everything.insert(everything.end(), block.begin(), block.end());
    counts.push_back(block.size());
  }

  auto const all = all_gather_v(comm, own_block(rank));
  expect(all.elements == everything && all.counts == counts, "all_gather_v finds out the sizes");
  expect(all_gather_v<ring>(comm, own_block(rank), {.timeout = 5s}).elements == everything, "with an algorithm");
  expect(all_gather_v(comm, std::vector<int>()).elements.empty(), "blocks may all be empty");
  std::vector<bool> const flags = all_gather_v(comm, std::array{rank == 0}).elements;
  expect(flags.size() == size && flags[0], "bool comes in a vector of bits");
  std::vector<int> two_columns(2 * size);
  two_columns[0] = rank;
  expect(all_gather_v(comm, strided(two_columns.data(), size, 2)).counts == std::vector<std::size_t>(size, size),
         "arrays with gaps");

  for (int const root : {0, last}) {
    auto const [at_root, sizes] = gather_v(comm, own_block(rank), root);
    expect(at_root == (rank == root ? everything : std::vector<int>()), "gather_v at the root alone");
    expect(sizes == (rank == root ? counts : std::vector<std::size_t>()), "with the sizes");
    std::vector<int> const mine = rank == root ? scatter_v(comm, everything, counts, root)
                                               : scatter_v(comm, std::span<int>(), {}, root, {.timeout = 5s});
    expect(mine == own_block(rank), "scatter_v returns this rank's block");
  }
  expect(gather_v(comm, own_block(rank), {.timeout = 5s}).counts.size() == (rank == 0 ? size : 0),
         "the first root is 0");
  expect(scatter_v(comm, everything, counts, {.timeout = 5s}) == own_block(rank), "of scatter_v too");

  // Rank r sends q elements r to rank q.
  std::vector<int> const outgoing(everything.size(), rank);
  auto const [incoming, receive_counts] = all_to_all_v(comm, outgoing, counts);
  std::vector<int> expected;
  for (int q = 0; q < ranks; ++q) expected.insert(expected.end(), static_cast<std::size_t>(rank), q);
  expect(incoming == expected, "all_to_all_v finds out what comes");
  expect(receive_counts == std::vector<std::size_t>(size, static_cast<std::size_t>(rank)), "and how much");

  std::vector<int> const sums = reduce_scatter_v(comm, everything, counts);
  expect(sums == std::vector<int>(static_cast<std::size_t>(rank), rank * ranks), "reduce_scatter_v");
  expect(reduce_scatter_v(comm, everything, counts, tutti::max{}, {.timeout = 5s}) == own_block(rank),
         "by an operation");
  expect(reduce_scatter_v(comm, everything, counts, {.timeout = 5s}) == sums, "with options and no operation");
}

// On ranks other than the root, {} stands for the array that only the root has.
template <class Comm>
void check_nothing_to_pass(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), last = ranks - 1;
  std::vector<int> const mine{rank};
  std::vector<int> all(static_cast<std::size_t>(ranks)), got(1);
  std::vector<std::size_t> const ones(all.size(), 1);
  if (rank == last) {
    gather(comm, mine, all, last);
    for (int q = 0; q < ranks; ++q) expect(all[static_cast<std::size_t>(q)] == q, "gather");
    gather_v(comm, mine, all, ones, {}, last);
    reduce(comm, mine, got, tutti::max{}, last);
    expect(got[0] == last, "reduce");
    scatter(comm, all, got, last);
    scatter_v(comm, all, ones, got, {}, last);
  } else {
    gather(comm, mine, {}, last);
    gather_v(comm, mine, {}, {}, {}, last);
    reduce(comm, mine, {}, tutti::max{}, last);
    scatter(comm, {}, got, last);
    expect(got[0] == rank, "scatter");
    scatter_v(comm, {}, {}, got, {}, last);
  }
  expect(got[0] == rank, "scatter_v");
  // A root of 0 may be left out before options, and at the end.
  if (rank == 0) {
    gather(comm, mine, all, {.timeout = 5s});
    gather_v(comm, mine, all, ones);
    reduce(comm, mine, got, tutti::max{}, {.timeout = 5s});
  } else {
    gather(comm, mine, {}, {.timeout = 5s});
    gather_v(comm, mine, {}, {});
    reduce(comm, mine, {}, tutti::max{}, {.timeout = 5s});
  }
}

// The ranks that pass wrong counts learn what is wrong, before the others allocate anything for them.
template <class Comm>
void check_wrong_counts(Comm& comm) {
  std::vector<int> const mine(3);
  std::vector<std::size_t> const too_few(static_cast<std::size_t>(comm.size()) - 1, 1);
  std::vector<std::size_t> too_much(static_cast<std::size_t>(comm.size()), 1);
  too_much.back() = std::size_t{1} << 50;
  auto const expect_refused = [](std::string const& words, auto call) {
    expect_error(error_of(call), error_code::bad_argument, words);
  };
  expect_refused("all_to_all_v needs a count for each of 2 ranks", [&] { return all_to_all_v(comm, mine, too_few); });
  expect_refused("reduce_scatter_v needs a count for each", [&] { return reduce_scatter_v(comm, mine, too_few); });
  expect_refused("block 1 of the input of all_to_all_v has", [&] { return all_to_all_v(comm, mine, too_much); });
  expect_refused("block 1 of the input of reduce_scatter_v", [&] { return reduce_scatter_v(comm, mine, too_much); });
  if (comm.is_main()) {
    expect_refused("scatter_v needs a count for each of 2 ranks", [&] { return scatter_v(comm, mine, too_few); });
    expect_refused("block 1 of the input of scatter_v has", [&] { return scatter_v(comm, mine, too_much); });
  }
  barrier(comm);
  // What a view throws is thrown, and the communicator is not to blame.
  auto const throws = mine | std::views::transform([](int) -> int { throw std::runtime_error("this element"); });
  try {
    static_cast<void>(all_gather_v(comm, throws));
    expect(false, "a view has thrown");
  } catch (std::runtime_error const& e) {
    expect(e.what() == std::string("this element"), e.what());
  }
  barrier(comm);
}

template <class Comm>
void check_by_value(Comm& comm) {
  check_values(comm);
  check_arrays(comm);
  check_uneven_blocks(comm);
  check_nothing_to_pass(comm);
}

}  // namespace

TEST_CASE("results are returned by value over threads and processes") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_by_value(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_by_value(comm); }));
  }
}

TEST_CASE("a list of counts that does not have one for each rank is refused before sizes are exchanged") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_wrong_counts(comm); }));
}
