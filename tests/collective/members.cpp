// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs and tuples as elements, argmin and argmax, and a communicator as a member of a class.
// labels: processes
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

static_assert(element<std::pair<int, float>> && element<std::tuple<int, std::pair<long, bool>>>);
static_assert(!element<std::pair<int, std::vector<int>>> && !element<std::tuple<int*>>);
static_assert(element<std::optional<int>> && element<std::chrono::seconds>);
static_assert(!element<std::vector<int>::iterator> && !element<std::reference_wrapper<int>>);
static_assert(operation<sum, std::pair<int, float>> && operation<product, std::tuple<int, std::pair<int, long>>>);
static_assert(!operation<sum, std::pair<int, std::pair<int, int*>>>);
static_assert(operation<min, std::pair<int, float>> && !operation<each<sum, tutti::max>, std::tuple<int>>);
static_assert(is_commutative<each<sum, tutti::max>> && !detail::combines_at_once<each<sum, tutti::max>>);
static_assert(detail::combines_at_once<each<sum, rank_ordered<sum>>>);
static_assert(product::identity<std::pair<int, double>>() == std::pair(1, 1.0));

namespace {

class simulation {
 public:
  explicit simulation(communicator<> comm) : comm_(std::move(comm)) {}
  double mean_of(double x) { return all_reduce(comm_, x, mean{}); }

 private:
  communicator<> comm_;
};

template <class Comm>
void check_members(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), total = ranks * (ranks - 1) / 2;

  expect(all_reduce(comm, std::pair(rank, 0.5)) == std::pair(total, 0.5 * ranks), "sum adds each member");
  expect(all_reduce(comm, std::pair(rank, -1), tutti::max{}) == std::pair(ranks - 1, -1), "max compares pairs");
  expect(all_reduce(comm, std::tuple(2 * rank, 1.0), mean{}) == std::tuple(ranks - 1, 1.0), "mean divides each member");
  expect(all_reduce(comm, std::tuple(rank, rank, 1), each{tutti::min{}, tutti::max{}, sum{}}) ==
             std::tuple(0, ranks - 1, ranks),
         "each member has its operation");
  expect(all_reduce(comm, std::pair(rank, -rank), each{tutti::min{}}) == std::pair(0, 1 - ranks), "or all the same");

  std::vector<std::pair<int, float>> many(3000, {rank, 1.0f});
  all_reduce(comm, many);
  expect(many == std::vector(3000, std::pair(total, static_cast<float>(ranks))), "arrays of pairs in slices");
  auto const all = all_gather(comm, std::tuple(rank, 'a'));
  expect(all.back() == std::tuple(ranks - 1, 'a'), "they move as well");

  auto const best = all_reduce(comm, located{(rank + 1) % ranks, rank}, argmax{});
  expect(best == located{ranks - 1, ranks == 1 ? 0 : ranks - 2}, "argmax finds the greatest");
  expect(all_reduce(comm, located{1.5, rank}, argmin{}).index == 0, "of equals the first");

  expect(all_reduce(comm, -rank, mean{}) == -total / ranks, "the mean of integers rounds towards zero");
}

}  // namespace

TEST_CASE("pairs, tuples and located values are elements") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_members(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_members(comm); }));
  }
}

TEST_CASE("a class holds a communicator<>") { CHECK(simulation(init()).mean_of(3) == 3); }
