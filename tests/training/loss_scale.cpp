// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The factor of the loss grows while gradients are finite, and a step whose gradients are not is skipped.
#include "tutti/training/loss_scale.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/expect.hpp"
#include "tutti/core/error.hpp"

using tutti::training::loss_scale;

TEST_CASE("the factor halves when gradients overflow, and doubles after enough steps without that") {
  loss_scale scale{.factor = 8, .growth_after = 3};
  CHECK(scale.update(1e30) == 0.125);
  CHECK(scale.update(0) == 0.125);
  CHECK(scale.update(std::numeric_limits<double>::infinity()) == 0);
  CHECK(scale.factor == 4);
  CHECK(scale.update(std::numeric_limits<double>::quiet_NaN()) == 0);
  CHECK(scale.factor == 2);
  for (int step = 0; step < 3; ++step) {
    CHECK(scale.factor == 2);
    CHECK(scale.update(1) == 0.5);  // also in the step in which the factor grows
  }
  CHECK(scale.factor == 4);
}

TEST_CASE("the factor grows if fewer steps are asked for than have been taken, and never if none are") {
  loss_scale scale{.factor = 8, .growth_after = 100, .steps = 50};
  scale.growth_after = 10;
  CHECK(scale.update(1) == 0.125);
  CHECK(scale.factor == 16);
  loss_scale constant{.factor = 8, .growth_after = 0};
  for (int step = 0; step < 3; ++step) CHECK(constant.update(1) == 0.125);
}

TEST_CASE("gradients that overflow for a long time leave a factor with which others do not vanish") {
  loss_scale scale;
  for (int step = 0; step < 2000; ++step) CHECK(scale.update(std::numeric_limits<double>::quiet_NaN()) == 0);
  CHECK(scale.factor == loss_scale::least);
  CHECK(scale.update(1) == 1 / loss_scale::least);
}

TEST_CASE("gradients that are zero for a long time leave a factor that is finite") {
  loss_scale scale{.growth_after = 1};
  for (int step = 0; step < 2000; ++step) CHECK(scale.update(0) > 0);
  CHECK(scale.factor == loss_scale::most);
  CHECK(scale.update(std::numeric_limits<double>::infinity()) == 0);
  CHECK(scale.factor == loss_scale::most / 2);
  loss_scale larger{.factor = 2 * loss_scale::most, .growth_after = 1};
  CHECK(larger.update(0) > 0);
  CHECK(larger.factor == 2 * loss_scale::most);  // a program may choose it
}

TEST_CASE("gradients are clipped by their norm without the factor") {
  loss_scale scale{.factor = 8};
  CHECK(scale.update(8 * 4, 5) == 0.125);
  CHECK(scale.update(8 * 10, 5) == 0.0625);
  CHECK(scale.update(0, 5) == 0.125);
  CHECK(scale.update(std::numeric_limits<double>::infinity(), 5) == 0);
}

TEST_CASE("constants with which the factor would be wrong are refused, and change nothing") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  auto const check = [](loss_scale scale, double most_norm, std::string const& words) {
    CAPTURE(words);
    double const before = scale.factor;
    for (double const norm : {1.0, infinity})
      CHECK_NOTHROW(
          tutti::testing::expect_error(tutti::testing::error_of([&] { return scale.update(norm, most_norm); }),
                                       tutti::error_code::bad_argument, words));
    CHECK(scale.steps == 0);
    if (before == before) CHECK(scale.factor == before);
  };
  for (double const factor : {0.0, -1.0, nan, infinity}) check({.factor = factor}, 1, "loss_scale::factor is ");
  for (double const growth : {0.5, -2.0, nan})
    check({.growth = growth, .growth_after = 1}, 1, "loss_scale::growth is ");
  for (double const backoff : {0.0, 1.0, nan}) check({.backoff = backoff}, 1, "loss_scale::backoff is ");
  for (double const most_norm : {0.0, -5.0, nan}) check({}, most_norm, "most_norm is ");
  check({.growth = 0.5}, 1, "loss_scale::growth is 0.5; set it to 1 or more, such as 2");
  loss_scale constant{.growth = 1, .growth_after = 1};
  CHECK(constant.update(1) == 1 / constant.factor);
}
