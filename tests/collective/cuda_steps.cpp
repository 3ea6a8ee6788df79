// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Algorithms that are named for virtual ranks of a device, against the same on the host, bit by bit; blocks are threads.
// labels: threads
// timeout: 400
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/device_algorithms.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Short slices and shares, so that short messages have several of both.
constexpr channel_options short_slices{.blocks = 3, .share = 256, .slots = 2, .slice = 256};

template <class T, class F>
void on_rank_counts(F const& f) {
  device_stand_in const on;
  for (int const p : {1, 2, 3, 4, 5, 8}) {
    device_channels channels(on, p, short_slices);
    cuda_local const ranks(channels);
    auto const size = static_cast<std::size_t>(p);
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, size - 1, size + 1, std::size_t{1000}}) {
      CAPTURE(p);
      CAPTURE(n);
      f(ranks, n);
    }
  }
}

}  // namespace

#define EVERY_ALGORITHM \
  ring, binomial_tree, double_binary_tree, recursive_doubling, recursive_halving, bruck, pairwise, one_shot, two_shot

TEST_CASE_TEMPLATE("reductions have the bits of the host", Algorithm, EVERY_ALGORITHM) {
  on_rank_counts<float>(
      [](auto const& ranks, std::size_t n) { CHECK(wrong_reductions<Algorithm, float>(ranks, n, sum{}) == 0); });
}

TEST_CASE_TEMPLATE("blocks come to where they belong", Algorithm, EVERY_ALGORITHM) {
  on_rank_counts<float>(
      [](auto const& ranks, std::size_t n) { CHECK(wrong_movements<Algorithm, std::uint32_t>(ranks, n) == 0); });
}
