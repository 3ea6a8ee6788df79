// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a codec sends and what it loses add up to the original.
#include "tutti/training/hooks/codecs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "support/expect.hpp"

using namespace tutti::training;

namespace {

// Values of very different magnitudes, zeros of both signs and denormal ones among them.
std::vector<float> awkward_values(std::size_t n, std::mt19937& random) {
  std::vector<float> out(n);
  std::uniform_int_distribution<int> exponent(-149, 127), kind(0, 5);
  std::normal_distribution<float> normal;
  for (float& x : out) switch (kind(random)) {
      case 0: x = 0; break;
      case 1: x = -0.0f; break;
      case 2: x = std::ldexp(1.0f, exponent(random)); break;
      default: x = normal(random);
    }
  return out;
}

template <gradient_codec Codec>
std::vector<float> through(Codec const& codec, std::vector<float> const& values) {
  std::vector<std::byte> message(codec.message_bytes(values.size()) + 1, std::byte{0x5a});
  std::vector<float> out(values.size(), 7);
  codec.encode(values, message.data());
  REQUIRE(message.back() == std::byte{0x5a});  // nothing was written past the end
  codec.decode(message.data(), out);
  return out;
}

constexpr std::size_t sizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 128, 1000};

}  // namespace

TEST_CASE("top_k sends the largest values exactly") {
  std::mt19937 random(1);
  for (std::size_t const n : sizes)
    for (double const share : {-1.0, 0.0, 0.01, 0.3, 1.0, 5.0}) {
      CAPTURE(n);
      CAPTURE(share);
      top_k const codec{.share = share};
      auto const values = awkward_values(n, random), sent = through(codec, values);
      float smallest_sent = std::numeric_limits<float>::infinity(), largest_lost = 0;
      std::size_t kept = 0;
      for (std::size_t i = 0; i < n; ++i) {
        float const lost = values[i] - sent[i];
        CHECK(lost + sent[i] == values[i]);
        if (sent[i] != 0) ++kept, smallest_sent = std::min(smallest_sent, std::abs(sent[i]));
        else largest_lost = std::max(largest_lost, std::abs(values[i]));
      }
      CHECK(kept <= codec.count(n));
      CHECK(smallest_sent >= largest_lost);
      CHECK(codec.count(n) >= std::min<std::size_t>(n, 1));
      if (share >= 1) CHECK(sent == values);
    }
  CHECK(top_k{.share = 0.01}.count(1000) == 10);
  CHECK(top_k{.share = 0.01}.message_bytes(1000) == 80);
}

TEST_CASE("top_k sends the first of equal values") {
  CHECK(through(top_k{.share = 0.5}, {1, -1, 1, -1}) == std::vector<float>{1, -1, 0, 0});
}

TEST_CASE("eight_bit_blocks rounds to a whole number of units, and loses nothing for good") {
  std::mt19937 random(2);
  eight_bit_blocks const codec;
  for (int round = 0; round < 50; ++round)
    for (std::size_t const n : sizes) {
      CAPTURE(n);
      auto const values = awkward_values(n, random), sent = through(codec, values);
      for (std::size_t i = 0; i < n; ++i) {
        std::size_t const begin = i / 64 * 64, end = std::min(n, begin + 64);
        float largest = 0;
        for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(values[k]));
        float const lost = values[i] - sent[i];
        CHECK(lost + sent[i] == values[i]);
        CHECK(std::abs(lost) <= std::max(largest / 127, std::ldexp(1.0f, -133)));
      }
    }
  CHECK(codec.message_bytes(64) == 65);
  CHECK(codec.message_bytes(65) == 67);
  std::vector<float> const largest{std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 1};
  CHECK(std::abs(through(codec, largest)[0] / largest[0] - 1) <= 1.0f / 127);
}

TEST_CASE("one_bit_signs sends the mean magnitude") {
  std::mt19937 random(3);
  one_bit_signs const codec;
  for (std::size_t const n : sizes) {
    CAPTURE(n);
    std::vector<float> values(n);
    std::normal_distribution<float> normal;
    double sum = 0;
    for (float& x : values) x = normal(random), sum += std::abs(static_cast<double>(x));
    auto const sent = through(codec, values);
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(std::signbit(sent[i]) == std::signbit(values[i]));
      CHECK(std::abs(sent[i]) == doctest::Approx(sum / static_cast<double>(n)));
      float const lost = values[i] - sent[i];
      CHECK(std::abs(lost + sent[i] - values[i]) <= std::abs(lost) * std::numeric_limits<float>::epsilon());
    }
  }
  CHECK(codec.message_bytes(9) == 6);
  CHECK(through(codec, {0.0f, -0.0f, -3}) == std::vector<float>{1, 1, -1});
}

TEST_CASE("what is no number does not go unnoticed") {
  auto const not_finite = [](float x) { return !std::isfinite(x); };
  for (float const odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(200, 1.0f);
    values[150] = odd;
    CHECK(std::ranges::any_of(through(top_k{.share = 0.01}, values), not_finite));
    CHECK(std::ranges::any_of(through(one_bit_signs{}, values), not_finite));
    auto const sent = through(eight_bit_blocks{}, values);
    CHECK(std::isnan(sent[150]));
    CHECK(sent[0] == 1);
  }
}

TEST_CASE("top_k refuses more values than its positions can name") {
  float const one = 1;
  std::span<float const> const many(&one, (std::size_t{1} << 32) + 1);  // none of which is read
  std::byte message[8];
  CHECK_NOTHROW(tutti::testing::expect_error(tutti::testing::error_of([&] {
                                               top_k{.share = 0}.encode(many, message);
                                               return 0;
                                             }),
                                             tutti::error_code::bad_argument, "a bucket has 4294967297 values"));
}
