// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for a size of buckets finds a cheaper one, ignores small differences and noise, and begins anew when the cost has changed.
#include "tutti/training/bucket_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

using tutti::detail::bucket_search;
using tutti::training::adaptive_buckets;

namespace {

using cost_of_size = std::function<double(std::size_t)>;

// Steps until the search has settled; returns the sizes that it used.
std::vector<std::size_t> sizes_until_settled(bucket_search& search, cost_of_size const& cost) {
  std::vector<std::size_t> out;
  for (int step = 0; step < 1000 && !search.settled(); ++step) {
    if (out.empty() || out.back() != search.bytes()) out.push_back(search.bytes());
    if (search.saw(std::chrono::nanoseconds(std::llround(cost(search.bytes()))))) search.judge(search.median());
  }
  REQUIRE(search.settled());
  return out;
}

// Least at `best`: smaller buckets pay for more calls, larger ones start late.
cost_of_size least_at(double best) {
  return [best](std::size_t bytes) {
    double const x = static_cast<double>(bytes) / best;
    return 1e6 * (x + 1 / x);
  };
}

}  // namespace

TEST_CASE("the cheapest size of the grid is found, and is never worse than the first") {
  adaptive_buckets const range{.least_bytes = 100, .most_bytes = 10000, .steps = 3};
  for (double const best : {100, 300, 1000, 4000, 10000})
    for (std::size_t const first : {1u, 100u, 700u, 2500u, 10000u, 1000000u}) {
      CAPTURE(best);
      CAPTURE(first);
      bucket_search search(range, first, 1 << 20);
      std::size_t const begin = search.bytes();
      CHECK(begin >= 100);
      CHECK(begin <= 10000);
      cost_of_size const cost = least_at(best);
      sizes_until_settled(search, cost);
      double least = cost(begin);
      for (std::size_t const other : {100u, 400u, 1600u, 6400u, 10000u}) least = std::min(least, cost(other));
      CHECK(cost(search.bytes()) <= cost(begin));
      CHECK(cost(search.bytes()) <= least / 0.9 + 1);
    }
}

TEST_CASE("the first size stays unless another is a tenth cheaper, twice") {
  adaptive_buckets const range{.least_bytes = 100, .most_bytes = 10000, .steps = 1};
  std::vector<std::size_t> const grid{1000, 100, 400, 1600, 6400, 10000};
  {
    bucket_search search(range, 1000, 1 << 20);
    CHECK(sizes_until_settled(search, [](std::size_t bytes) { return bytes == 1000 ? 1000 : 910; }) == grid);
    CHECK(search.bytes() == 1000);
  }
  int trial = 0;  // of this size; the second one is as dear as the first size
  bucket_search search(range, 1000, 1 << 20);
  auto sizes = grid;
  sizes.insert(sizes.end(), {1000, 400});
  CHECK(sizes_until_settled(search, [&](std::size_t bytes) { return bytes == 400 && trial++ < 2 ? 500 : 1000; }) ==
        sizes);
  CHECK(search.bytes() == 1000);
}

// Costs scatter by a fifth, and in some steps something else slows the ranks down three times.
TEST_CASE("noise seldom moves the search to a size that is dearer than the first by a tenth") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> scatter(0.8, 1.2);
  int moved = 0;
  for (int run = 0; run < 1000; ++run) {
    bucket_search search({}, 25 << 20, std::size_t{1} << 30);
    int slow = 0;  // steps for which it still is
    sizes_until_settled(search, [&](std::size_t bytes) {
      if (slow == 0 && random() % 50 == 0) slow = 8;
      if (slow > 0) --slow;
      return (bytes == 25 << 20 ? 1e6 : 1.1e6) * scatter(random) * (slow > 0 ? 3 : 1);
    });
    moved += search.bytes() != 25 << 20 ? 1 : 0;
  }
  CHECK(moved < 50);
}

TEST_CASE("no size is tried that the range or the model excludes") {
  bucket_search within({.least_bytes = 300, .most_bytes = 800, .steps = 1}, 500, 1 << 20);
  CHECK(sizes_until_settled(within, [](std::size_t) { return 1; }) == std::vector<std::size_t>{500, 300, 800});
  bucket_search small({.least_bytes = 300, .most_bytes = 800, .steps = 1}, 500, 400);  // all gradients have 400 bytes
  CHECK(sizes_until_settled(small, [](std::size_t) { return 1; }) == std::vector<std::size_t>{400, 300});
  bucket_search tiny({.least_bytes = 300, .most_bytes = 800, .steps = 1}, 500, 4);
  CHECK(sizes_until_settled(tiny, [](std::size_t) { return 1; }) == std::vector<std::size_t>{300});
}

TEST_CASE("the median of the steps counts, without the first after a change") {
  bucket_search search({.least_bytes = 1, .most_bytes = 100, .steps = 3}, 10, 1000);
  auto const saw = [&](int cost) { return search.saw(std::chrono::nanoseconds(cost)); };
  CHECK_FALSE(saw(9999));
  CHECK_FALSE(saw(5));
  CHECK_FALSE(saw(700));
  CHECK(saw(6));
  CHECK(search.median() == std::chrono::nanoseconds(6));
}

TEST_CASE("a search that has settled begins anew when its size has become dear") {
  bucket_search search({.least_bytes = 100, .most_bytes = 10000, .steps = 2}, 800, 1 << 20);
  sizes_until_settled(search, least_at(1000));
  CHECK(search.bytes() == 800);
  auto const windows = [&](cost_of_size const& cost, int number) {
    for (int i = 0; i < 2 * number; ++i)
      if (search.saw(std::chrono::nanoseconds(std::llround(cost(search.bytes()))))) search.judge(search.median());
  };
  windows([](std::size_t) { return 2.5e6; }, 5);  // 2.05e6 before
  CHECK(search.settled());
  CHECK(search.bytes() == 800);
  windows(least_at(6400), 1);
  CHECK_FALSE(search.settled());
  sizes_until_settled(search, least_at(6400));
  CHECK(search.bytes() == 6400);
}
