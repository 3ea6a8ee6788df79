// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shards of all ranks are all elements of all buckets, each once.
#include "tutti/training/sharded/shard_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training/sharded/unit_order.hpp"

using namespace tutti;
using namespace tutti::training;

namespace {

using numbers = std::vector<std::size_t>;

constexpr int nobody = -1;

void check_shards(bucket_plan const& plan, int ranks) {
  std::vector<std::vector<int>> owners;  // of each element of each parameter
  for (auto const& place : plan.places) owners.emplace_back(place.count, nobody);
  std::vector<std::size_t> taken(plan.buckets.size());
  for (int rank = 0; rank < ranks; ++rank) {
    shard_plan const shards = plan_shards(plan, ranks, rank);
    std::size_t at = 0;
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      CHECK(shards.counts[b].size() == static_cast<std::size_t>(ranks));
      CHECK(shards.counts[b][static_cast<std::size_t>(rank)] == shards.mine[b].count);
      CHECK(shards.mine[b].begin == (shards.mine[b].count == 0 ? shards.mine[b].begin : taken[b]));
      CHECK(shards.begins[b] == at);
      taken[b] += shards.mine[b].count;
      at += shards.mine[b].count;
    }
    CHECK(shards.elements == at);
    at = 0;
    for (auto const& part : shards.owned) {
      CHECK(part.begin == at);
      at += part.elements.count;
      std::span const owner = std::span(owners[part.parameter]).subspan(part.elements.begin, part.elements.count);
      CHECK(std::ranges::count(owner, nobody) == static_cast<std::ptrdiff_t>(part.elements.count));
      std::ranges::fill(owner, rank);
    }
    CHECK(at == shards.elements);
  }
  for (auto const& of_parameter : owners) CHECK(std::ranges::count(of_parameter, nobody) == 0);
}

}  // namespace

TEST_CASE("shards are all elements, each once") {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    numbers counts(random() % 12), order(counts.size());
    for (std::size_t& n : counts) n = random() % 90;
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    for (int const ranks : {1, 2, 3, 7, 16}) {
      check_shards(plan_buckets(counts, order, {.bytes = random() % 900, .first_bytes = random() % 100}, 4), ranks);
      check_shards(plan_units(counts, numbers(counts.size(), 1), 4), ranks);
    }
  }
}

TEST_CASE("a unit is a bucket, and the last one is the first") {
  bucket_plan const plan = plan_units(numbers{5, 6, 7, 8}, numbers{1, 3}, 4);
  CHECK(plan.buckets.size() == 2);
  CHECK(plan.buckets[0].parameters == numbers{1, 2, 3});
  CHECK(plan.buckets[0].count == 21);
  CHECK(plan.buckets[1].parameters == numbers{0});
  CHECK(plan.buckets[1].begin == 32);
  CHECK(plan.places[2].begin == 6);
  CHECK(checked_units({}, 3, 0, {}) == numbers{1, 1, 1});
  auto const refused = [](numbers const& wrong, std::string const& words) {
    CHECK_NOTHROW(testing::expect_error(testing::error_of([&] { return checked_units(wrong, 3, 0, {}).size(); }),
                                        error_code::bad_argument, words));
  };
  refused({1, 1}, "the units have 2 parameters together, but the model has 3");
  refused({2, 2}, "the units have 4 parameters together, but the model has 3");
  refused({3, 0}, "unit 1 has no parameter");
  refused({~std::size_t{0}, 4}, "unit 0 has 18446744073709551615 parameters, but the model has 3");
}

TEST_CASE("the order of units is learned in the first step") {
  tutti::detail::unit_order order;
  auto const step = [&](std::vector<numbers> const& expected) {
    std::size_t i = 0;
    for (std::size_t const unit : {0u, 1u, 2u, 2u, 1u, 0u}) {
      order.note(unit);
      if (!expected.empty()) CHECK(order.expected(2) == expected[i++]);
    }
    order.restart();
  };
  step({{}, {}, {}, {}, {}, {}});
  step({{1, 2}, {2, 2}, {2, 1}, {1, 0}, {0}, {}});
  order.note(0);  // a forward pass alone, for an evaluation
  order.note(1);
  order.note(2);
  order.note(0);
  CHECK(order.expected(1).empty());
}
