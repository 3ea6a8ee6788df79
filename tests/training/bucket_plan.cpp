// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters are divided into buckets in a given order, none larger than asked for unless it has one parameter.
#include "tutti/training/bucket_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

using namespace tutti::training;

namespace {

using indices = std::vector<std::size_t>;

std::vector<indices> parameters_of(bucket_plan const& plan) {
  std::vector<indices> out;
  for (auto const& b : plan.buckets) out.push_back(b.parameters);
  return out;
}

}  // namespace

TEST_CASE("a bucket is closed before it becomes too large") {
  // In floats: 4 in the first bucket, 10 in the others.
  bucket_sizes const sizes{.bytes = 40, .first_bytes = 16, .last_bytes = 0};
  CHECK(parameters_of(plan_buckets(indices{3, 3, 3}, indices{2, 1, 0}, sizes, 4)) == std::vector<indices>{{2}, {1, 0}});
  CHECK(parameters_of(plan_buckets(indices{2, 2, 10, 1}, indices{0, 1, 2, 3}, sizes, 4)) ==
        std::vector<indices>{{0, 1}, {2}, {3}});
  CHECK(parameters_of(plan_buckets(indices{99, 99, 1}, indices{0, 1, 2}, sizes, 4)) ==
        std::vector<indices>{{0}, {1}, {2}});
  CHECK(parameters_of(plan_buckets(indices{0, 0, 4, 0}, indices{0, 1, 2, 3}, sizes, 4)) ==
        std::vector<indices>{{0, 1, 2, 3}});
  CHECK(plan_buckets(indices{}, indices{}, sizes, 4).buckets.empty());
}

TEST_CASE("the last bucket is small") {
  bucket_sizes const sizes{.bytes = 40, .first_bytes = 16, .last_bytes = 12};  // in floats: 10, 4 and 3
  CHECK(parameters_of(plan_buckets(indices{4, 2, 2, 2, 1, 1}, indices{0, 1, 2, 3, 4, 5}, sizes, 4)) ==
        std::vector<indices>{{0}, {1, 2, 3}, {4, 5}});
  CHECK(parameters_of(plan_buckets(indices{4, 1, 1, 4}, indices{0, 1, 2, 3}, sizes, 4)) ==
        std::vector<indices>{{0}, {1, 2}, {3}});
  CHECK(parameters_of(plan_buckets(indices{1, 1, 1}, indices{2, 1, 0}, sizes, 4)) == std::vector<indices>{{2, 1, 0}});
  CHECK(parameters_of(plan_buckets(indices{4, 9, 0, 0}, indices{0, 1, 2, 3}, sizes, 4)) ==
        std::vector<indices>{{0}, {1, 2, 3}});
}

TEST_CASE("plans with other sizes have all parameters in the same places, and buckets begin at cache lines") {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    indices counts(1 + random() % 20), order(counts.size());
    for (std::size_t& n : counts) n = random() % 50;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<bucket_sizes> all;
    for (std::size_t const bytes : {80u, 200u, 640u, 100000u})
      all.push_back({.bytes = bytes, .first_bytes = 60, .last_bytes = 60});
    bucket_plan const first = plan_buckets(counts, order, all[0], 4, all);
    for (bucket_sizes const& sizes : all) {
      bucket_plan const plan = plan_buckets(counts, order, sizes, 4, all);
      CHECK(plan.elements == first.elements);
      CHECK(parameters_of(plan) == parameters_of(plan_buckets(counts, order, sizes, 4)));
      for (std::size_t i = 0; i < counts.size(); ++i) CHECK(plan.places[i].begin == first.places[i].begin);
      for (auto const& b : plan.buckets) {
        CHECK(b.begin % 16 == 0);
        auto const& last = plan.places[b.parameters.back()];
        CHECK(b.begin + b.count == last.begin + last.count);
      }
    }
  }
}

TEST_CASE("every parameter has a place of its own in its bucket") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    indices counts(random() % 20), order(counts.size());
    for (std::size_t& n : counts) n = random() % 50;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    bucket_sizes const sizes{.bytes = random() % 400, .first_bytes = random() % 100, .last_bytes = random() % 100};
    bucket_plan const plan = plan_buckets(counts, order, sizes, 8);
    indices seen;
    std::size_t at = 0;
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      auto const& bucket = plan.buckets[b];
      CHECK(bucket.begin % 8 == 0);
      CHECK(bucket.begin >= at);
      at = bucket.begin;
      for (std::size_t const i : bucket.parameters) {
        CHECK(plan.places[i].bucket == b);
        CHECK(plan.places[i].begin == at);
        CHECK(plan.places[i].count == counts[i]);
        at += counts[i];
        seen.push_back(i);
      }
      CHECK(at == bucket.begin + bucket.count);
      std::size_t const most = (b == 0 ? sizes.first_bytes : sizes.bytes) / 8;
      auto const nonempty = std::ranges::count_if(bucket.parameters, [&](std::size_t i) { return counts[i] > 0; });
      CHECK((bucket.count <= most || nonempty == 1));
    }
    CHECK(at == plan.elements);
    CHECK(seen == order);
  }
}
