// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of examples is a permutation that depends on nothing but its arguments.
#include "tutti/training/epoch_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

using tutti::training::epoch_order;

TEST_CASE("an order contains each example once, and differs between epochs and seeds") {
  for (std::size_t const examples : {0u, 1u, 2u, 1000u}) {
    auto order = epoch_order(examples, 1, 0);
    CHECK(order == epoch_order(examples, 1, 0));
    std::ranges::sort(order);
    for (std::size_t i = 0; i < examples; ++i) CHECK(order[i] == i);
    CHECK(order.size() == examples);
  }
  constexpr std::uint64_t high = std::uint64_t{1} << 32;
  std::vector<std::vector<std::size_t>> all;
  for (std::uint64_t const seed : {std::uint64_t{0}, std::uint64_t{1}, high})
    for (std::uint64_t const epoch : {std::uint64_t{0}, std::uint64_t{1}, high})
      all.push_back(epoch_order(50, seed, epoch));
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("every compiler and standard library gives this order") {
  CHECK(epoch_order(8, 1, 2) == std::vector<std::size_t>{0, 2, 3, 1, 5, 7, 4, 6});
}

TEST_CASE("an example is everywhere equally often") {
  std::vector<int> first(10);
  for (std::uint64_t epoch = 0; epoch < 5000; ++epoch) ++first[epoch_order(10, 3, epoch)[0]];
  for (int const times : first) CHECK(std::abs(times - 500) < 120);
}
