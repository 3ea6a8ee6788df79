// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for a size of buckets finds a cheaper one in spite of noise, ignores small differences, and begins anew when the cost has
// changed.
#include "tutti/training/bucket_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

using tutti::detail::bucket_search;
using tutti::training::adaptive_buckets;

namespace {

using cost_of_size = std::function<double(std::size_t)>;

// Steps until the search has settled; returns the size of each turn.
std::vector<std::size_t> turns_until_settled(bucket_search& search, cost_of_size const& cost) {
  std::vector<std::size_t> out;
  for (int step = 0; step < 1000 && !search.settled(); ++step) {
    std::size_t const bytes = search.bytes();
    if (!search.saw(std::chrono::nanoseconds(std::llround(cost(bytes))))) continue;
    out.push_back(bytes);
    search.judge(search.median());
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
      turns_until_settled(search, cost);
      double least = cost(begin);
      for (std::size_t const other : {100u, 400u, 1600u, 6400u, 10000u}) least = std::min(least, cost(other));
      CHECK(cost(search.bytes()) <= cost(begin));
      CHECK(cost(search.bytes()) <= least / 0.98 + 1);
    }
}

TEST_CASE(
    "sizes take turns, forwards and backwards; the better half goes on, and the best competes with the first alone") {
  adaptive_buckets const range{.least_bytes = 100, .most_bytes = 10000, .steps = 1};
  bucket_search search(range, 1000, 1 << 20);
  std::vector<std::size_t> const grid{1000, 100, 400, 1600, 6400, 10000};
  CHECK(search.sizes() == grid);
  auto const cost = [](std::size_t bytes) {
    return bytes == 400 ? 900 : bytes == 1600 ? 950 : bytes == 100 ? 990 : 1000;
  };
  std::vector<std::size_t> const turns = turns_until_settled(search, cost);
  auto const backwards = [](std::vector<std::size_t> round) { return std::ranges::reverse(round), round; };
  std::vector<std::size_t> expected;
  auto const play = [&](std::vector<std::size_t> const& round, int rounds) {
    for (int r = 0; r < rounds; ++r)
      std::ranges::copy(r % 2 == 0 ? round : backwards(round), std::back_inserter(expected));
  };
  play(grid, 10);
  play({1000, 400, 1600}, 10);
  play({1000, 400}, 22);
  CHECK(turns == expected);
  CHECK(search.bytes() == 400);
}

TEST_CASE("the first size stays unless another is cheaper by 2 percent in 22 of 32 rounds") {
  adaptive_buckets const range{.least_bytes = 100, .most_bytes = 200, .steps = 1};
  auto const size_after = [&](int challenger, int lost) {
    bucket_search search(range, 100, 1 << 20);
    turns_until_settled(search, [&](std::size_t bytes) {
      if (bytes == 100) return 1000;
      return lost-- > 0 ? 1000 : challenger;
    });
    return search.bytes();
  };
  CHECK(size_after(985, 0) == 100);
  CHECK(size_after(975, 0) == 200);
  CHECK(size_after(500, 10) == 200);
  CHECK(size_after(500, 11) == 100);
}

// Costs scatter by a fifth, in some steps something else slows the ranks down three times, and the machine becomes slower.
TEST_CASE("noise hides no size that is cheaper by 15 percent, and seldom moves the search to one that is no better") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> scatter(0.8, 1.2);
  auto const chosen = [&](double cost_of_4_mib) {
    bucket_search search({}, 25 << 20, std::size_t{1} << 30);
    int slow = 0, step = 0;  // steps for which it still is, and all
    turns_until_settled(search, [&](std::size_t bytes) {
      if (slow == 0 && random() % 50 == 0) slow = 8;
      if (slow > 0) --slow;
      double const drift = 1 + 0.002 * ++step;
      return 1e6 * (bytes == 4 << 20 ? cost_of_4_mib : 1.0) * scatter(random) * (slow > 0 ? 3 : 1) * drift;
    });
    return search.bytes();
  };
  int found = 0, moved = 0;
  for (int run = 0; run < 300; ++run) {
    found += chosen(0.85) == 4 << 20 ? 1 : 0;
    moved += chosen(1.0) != 25 << 20 ? 1 : 0;
  }
  CAPTURE(found);
  CAPTURE(moved);
  CHECK(found > 240);
  CHECK(moved < 9);
}

TEST_CASE("no size is tried that the range or the model excludes") {
  using sizes = std::vector<std::size_t>;
  adaptive_buckets const range{.least_bytes = 300, .most_bytes = 800, .steps = 1};
  CHECK(bucket_search(range, 500, 1 << 20).sizes() == sizes{500, 300, 800});
  CHECK(bucket_search(range, 500, 400).sizes() == sizes{400, 300});  // all gradients have 400 bytes
  bucket_search const tiny(range, 500, 4);
  CHECK(tiny.sizes() == sizes{300});
  CHECK(tiny.settled());
}

TEST_CASE("the median of the steps counts") {
  bucket_search search({.least_bytes = 1, .most_bytes = 100, .steps = 3}, 10, 1000);
  auto const saw = [&](int cost) { return search.saw(std::chrono::nanoseconds(cost)); };
  CHECK_FALSE(saw(5));
  CHECK_FALSE(saw(700));
  CHECK(saw(6));
  CHECK(search.median() == std::chrono::nanoseconds(6));
}

TEST_CASE("a search that has settled begins anew when its size has become dear") {
  bucket_search search({.least_bytes = 100, .most_bytes = 10000, .steps = 2}, 10000, 1 << 20);
  turns_until_settled(search, least_at(1600));
  CHECK(search.bytes() == 1600);
  auto const see = [&](cost_of_size const& cost, int turns) {
    for (int i = 0; i < 2 * 20 * turns; ++i)
      if (search.saw(std::chrono::nanoseconds(std::llround(cost(search.bytes()))))) search.judge(search.median());
  };
  see([](std::size_t) { return 2.9e6; }, 5);  // 2e6 before
  CHECK(search.settled());
  see(least_at(6400), 1);
  CHECK_FALSE(search.settled());
  CHECK(search.sizes()[0] == 1600);
  turns_until_settled(search, least_at(6400));
  CHECK(search.bytes() == 6400);
}
