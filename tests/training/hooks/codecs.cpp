// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a codec sends and what it loses add up to the original.
#include "tutti/training/hooks/codecs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
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

template <class T>
void append(std::vector<std::byte>& message, T const& x) {
  auto const bytes = std::as_bytes(std::span(&x, 1));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

// What the codecs send, value by value.
std::vector<std::byte> message_of(top_k const& codec, std::vector<float> const& values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  auto const magnitude = [&](std::uint32_t i) { return std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffff; };
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(a) != magnitude(b) ? magnitude(a) > magnitude(b) : a < b;
  });
  order.resize(codec.count(values.size()));
  std::ranges::sort(order);
  std::vector<std::byte> out;
  for (std::uint32_t const i : order) append(out, i), append(out, values[i]);
  return out;
}
std::vector<std::byte> message_of(eight_bit_blocks const&, std::vector<float> const& values) {
  std::vector<std::byte> out;
  for (std::size_t begin = 0; begin < values.size(); begin += 64) {
    std::span const block = std::span(values).subspan(begin, std::min<std::size_t>(64, values.size() - begin));
    float largest = 0;
    bool const finite = std::ranges::all_of(block, [](float x) { return std::isfinite(x); });
    for (float const x : block) largest = std::max(largest, finite ? std::abs(x) : 0);
    int const exponent = largest == 0 ? -132 : std::max(-132, std::ilogb(largest) - 6);
    append(out, static_cast<std::uint8_t>(finite ? exponent + 132 : 255));
    for (float const x : block) {
      double const units = std::round(std::ldexp(static_cast<double>(x), -exponent));  // ties away from zero
      append(out, static_cast<std::int8_t>(finite ? std::clamp(units, -127.0, 127.0) : 0));
    }
  }
  return out;
}
std::vector<std::byte> message_of(one_bit_signs const&, std::vector<float> const& values) {
  double sum = 0;
  for (float const x : values) sum += std::abs(static_cast<double>(x));
  std::vector<std::byte> out;
  if (values.empty()) return out;
  append(out, static_cast<float>(sum / static_cast<double>(values.size())));
  out.resize(out.size() + (values.size() + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::signbit(values[i]) && values[i] != 0) out[4 + i / 8] |= std::byte{1} << (i % 8);
  return out;
}

}  // namespace

TEST_CASE("codecs send what their definitions say, bit for bit") {
  std::mt19937 random(4);
  auto const check = [](auto const& codec, std::vector<float> const& values) {
    std::vector<std::byte> sent(codec.message_bytes(values.size()));
    codec.encode(values, sent.data());
    CHECK(sent == message_of(codec, values));
  };
  for (int round = 0; round < 200; ++round)
    for (std::size_t const n : sizes) {
      CAPTURE(round);
      CAPTURE(n);
      auto values = awkward_values(n, random);
      // Halves of units and their neighbours, and equal magnitudes.
      if (round % 4 == 1)
        for (float& x : values) {
          x = std::round(x * 80) / 4;
          if (random() % 2 == 0) x = std::nextafter(x, static_cast<float>(random() % 200) - 100);
        }
      if (round % 4 == 2)
        for (float& x : values) x = std::round(x * 2);
      if (round % 4 == 3 && n > 0)
        values[random() % n] =
            random() % 2 == 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      for (double const share : {0.0, 0.05, 0.5, 1.0}) check(top_k{.share = share}, values);
      check(eight_bit_blocks{}, values);
      check(one_bit_signs{}, values);
    }
}

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
