// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The array queue behaves like std::deque, and its memory does not grow with the number of elements that pass through it.
#include "tutti/core/fifo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>

using tutti::detail::fifo;

TEST_CASE("a fifo behaves like a deque") {
  std::mt19937 random(3);
  fifo<int> mine;
  std::deque<int> other;
  for (int i = 0; i < 20000; ++i) {
    auto const what = random() % 8;
    if (what < 4 || other.empty()) {
      mine.push_back(i);
      other.push_back(i);
    } else if (what < 7) {
      mine.pop_front();
      other.pop_front();
    } else {
      auto const at = static_cast<std::ptrdiff_t>(random() % other.size());
      mine.erase(mine.begin() + at);
      other.erase(other.begin() + at);
    }
    if (random() % 500 == 0) mine.clear(), other.clear();
    REQUIRE(mine.empty() == other.empty());
    REQUIRE(std::ranges::equal(mine, other));
  }
}

TEST_CASE("a fifo erases the first elements that fit, in order") {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    fifo<int> mine;
    std::deque<int> other, expected, erased;
    for (int i = 0; i < 3; ++i) mine.push_back(-1), mine.pop_front();
    for (int i = static_cast<int>(random() % 6); i > 0; --i) {
      int const element = static_cast<int>(random() % 10);
      mine.push_back(element);
      other.push_back(element);
    }
    std::size_t const most = random() % 5;
    int const limit = static_cast<int>(random() % 11);
    for (int const element : other) (element < limit && erased.size() < most ? erased : expected).push_back(element);
    std::deque<int> seen;
    mine.erase_if(most, [&](int element) {
      if (element < limit) seen.push_back(element);
      return element < limit;
    });
    REQUIRE(std::ranges::equal(mine, expected));
    REQUIRE(mine.size() == expected.size());
    REQUIRE(seen == erased);
  }
}

TEST_CASE("a fifo keeps neither removed elements nor memory for them") {
  auto const shared = std::make_shared<int>(1);
  fifo<std::shared_ptr<int>> all;
  for (int i = 0; i < 3; ++i) all.push_back(shared);
  all.pop_front();
  CHECK(shared.use_count() == 3);
  all.push_back(shared);
  auto const turn = [&] {
    all.push_back(shared);
    all.pop_front();
  };
  for (int i = 0; i < 100; ++i) turn();
  auto const within = [](auto const* p, auto const* begin) { return std::abs(p - begin) < 10; };
  auto const* const place = &all.front();
  int elsewhere = 0;
  for (int i = 0; i < 10000; ++i) {
    turn();
    elsewhere += !within(&all.front(), place);
  }
  CHECK(elsewhere == 0);
  CHECK(shared.use_count() == 4);
}
