// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lossy codecs of gradients: the largest values, 8 bits for each value, 1 bit for each value.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::training {

// Turns values into a message whose size depends on their number alone, and back. A message that holds an infinity or a
// NaN decodes to at least one NaN or infinity, so that training that diverges does not go unnoticed.
template <class C>
concept gradient_codec = requires(C const& codec, std::size_t n, std::span<float const> values, std::byte* message,
                                  std::byte const* received, std::span<float> out) {
  { codec.message_bytes(n) } -> std::same_as<std::size_t>;
  codec.encode(values, message);
  codec.decode(received, out);
};

// The values of largest magnitude, exactly, with their positions; of equal ones the first. The others count as zero. 8 bytes
// for each value that is sent. Throws error: bad_argument for more than 2^32 - 1 values. (Stich et al., "Sparsified SGD with
// Memory", NeurIPS 2018.)
struct top_k {
  double share = 0.01;  // of the values, from 0 to 1; at least one is sent

  // How many of n values are sent.
  std::size_t count(std::size_t n) const noexcept {
    if (!(share > 0)) return std::min<std::size_t>(n, 1);
    return std::min(n, static_cast<std::size_t>(std::ceil(std::min(share, 1.0) * static_cast<double>(n))));
  }
  std::size_t message_bytes(std::size_t n) const noexcept { return count(n) * sizeof(entry); }

  void encode(std::span<float const> values, std::byte* message) const {
    if (values.size() > std::numeric_limits<std::uint32_t>::max())
      throw error({.code = error_code::bad_argument,
                   .what = tutti::detail::join(
                       {"top_k counts positions with 32 bits, but a bucket has ", values.size(), " values"}),
                   .way_out = "divide the largest parameters, or use another codec"});
    auto const [threshold, of_equal] = smallest_sent(values, count(values.size()));
    std::size_t equal = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t const m = magnitude(values[i]);
      if (m < threshold || (m == threshold && equal++ >= of_equal)) continue;
      entry const one{static_cast<std::uint32_t>(i), values[i]};
      std::memcpy(message, &one, sizeof one);
      message += sizeof one;
    }
  }
  void decode(std::byte const* message, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    for (std::size_t i = count(out.size()); i > 0; --i, message += sizeof(entry)) {
      entry one;
      std::memcpy(&one, message, sizeof one);
      if (one.position < out.size()) out[one.position] = one.value;
    }
  }

 private:
  struct entry {
    std::uint32_t position;
    float value;
  };
  // In the order of magnitudes, and of NaNs above infinity.
  static std::uint32_t magnitude(float x) noexcept { return std::bit_cast<std::uint32_t>(x) & 0x7fffffff; }

  struct limit {
    std::uint32_t magnitude = 0xffffffff;
    std::size_t of_equal = 0;  // how many values of this magnitude are sent
  };
  // Counts the values by the first digits of their magnitudes, and sorts only those that share their digits with the one sought.
  static limit smallest_sent(std::span<float const> values, std::size_t sent) {
    constexpr int shift = 20;
    if (sent == 0) return {};
    std::vector<std::size_t> counts(std::size_t{1} << (31 - shift));
    for (float const x : values) ++counts[magnitude(x) >> shift];
    std::size_t digits = counts.size() - 1, larger = 0;
    for (; larger + counts[digits] < sent; --digits) larger += counts[digits];
    std::vector<std::uint32_t> near;
    near.reserve(counts[digits]);
    for (float const x : values)
      if (std::uint32_t const m = magnitude(x); m >> shift == digits) near.push_back(m);
    auto const at = near.begin() + static_cast<std::ptrdiff_t>(sent - larger - 1);
    std::nth_element(near.begin(), at, near.end(), std::greater<>());
    larger += static_cast<std::size_t>(std::count_if(near.begin(), at, [&](std::uint32_t m) { return m > *at; }));
    return {*at, sent - larger};
  }
};

// Blocks of 64 values that share a power of two as their unit. Each value is sent as a whole number of units from -127 to
// 127, so its error is at most 1/127 of the largest magnitude of the block, or 2^-133. 65 bytes for 64 values. A block with
// an infinity or a NaN arrives as NaNs. (Block floating point: Wilkinson, "Rounding Errors in Algebraic Processes", 1963.)
struct eight_bit_blocks {
  static constexpr std::size_t block = 64;

  std::size_t message_bytes(std::size_t n) const noexcept { return n + (n + block - 1) / block; }

  void encode(std::span<float const> values, std::byte* message) const noexcept {
    for (std::size_t begin = 0; begin < values.size(); begin += block) {
      auto const part = values.subspan(begin, std::min(block, values.size() - begin));
      int const exponent = exponent_for(part);
      *message++ = static_cast<std::byte>(exponent == not_finite ? not_finite : exponent - lowest);
      if (exponent == not_finite) {
        message = std::fill_n(message, part.size(), std::byte{0});
        continue;
      }
      // In two factors, because their product may be larger than any float.
      float const first = std::ldexp(1.0f, -exponent / 2), second = std::ldexp(1.0f, -exponent - -exponent / 2);
      auto const round = [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) message[i] = static_cast<std::byte>(whole(part[i] * first * second));
      };
      if (part.size() == block) round(block);  // a constant, for which compilers use vector instructions
      else round(part.size());
      message += part.size();
    }
  }
  void decode(std::byte const* message, std::span<float> out) const noexcept {
    for (std::size_t begin = 0; begin < out.size(); begin += block) {
      int const code = std::to_integer<int>(*message++);
      float const unit = code == not_finite ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, code + lowest);
      for (float& x : out.subspan(begin, std::min(block, out.size() - begin)))
        x = unit * static_cast<float>(static_cast<std::int8_t>(*message++));
    }
  }

 private:
  // Exponents of units lie between these, so that a byte holds them and the mark.
  static constexpr int lowest = -132, highest = 121;
  static constexpr int not_finite = 255;
  static_assert(highest - lowest < not_finite);

  // The exponent of a unit of which the largest magnitude of the block has fewer than 128.
  static int exponent_for(std::span<float const> part) noexcept {
    auto const largest_of = [&](std::size_t n) {
      std::int32_t out = 0;  // magnitudes as integers have the order of magnitudes, and NaNs are above infinity
      for (std::size_t i = 0; i < n; ++i) out = std::max(out, std::bit_cast<std::int32_t>(part[i]) & 0x7fffffff);
      return std::bit_cast<float>(out);
    };
    float const largest = part.size() == block ? largest_of(block) : largest_of(part.size());
    if (!std::isfinite(largest)) return not_finite;
    return largest == 0 ? lowest : std::max(lowest, std::ilogb(largest) - 6);
  }
  // The nearest whole number; of two the larger in magnitude. The fraction is exact, unlike x + 0.5.
  static int whole(float x) noexcept {
    int const truncated = static_cast<int>(x);
    float const fraction = x - static_cast<float>(truncated);
    return std::clamp(truncated + (fraction >= 0.5f ? 1 : 0) - (fraction <= -0.5f ? 1 : 0), -127, 127);
  }
};

// The sign of each value; all have the mean magnitude of the bucket. 1 bit for each value, and 4 bytes. Zero counts as
// positive. Only with error feedback does training converge. (Karimireddy et al., "Error Feedback Fixes SignSGD and
// other Gradient Compression Schemes", ICML 2019.)
struct one_bit_signs {
  std::size_t message_bytes(std::size_t n) const noexcept { return n == 0 ? 0 : sizeof(float) + (n + 7) / 8; }

  void encode(std::span<float const> values, std::byte* message) const noexcept {
    if (values.empty()) return;
    double sum = 0;
    std::byte* const bits = message + sizeof(float);
    std::size_t i = 0;
    for (; i + 8 <= values.size(); i += 8) {
      bits[i / 8] = signs_of(values.data() + i, 8);
      for (std::size_t k = 0; k < 8; ++k) sum += std::abs(static_cast<double>(values[i + k]));
    }
    if (i < values.size()) bits[i / 8] = signs_of(values.data() + i, values.size() - i);
    for (; i < values.size(); ++i) sum += std::abs(static_cast<double>(values[i]));
    auto const mean = static_cast<float>(sum / static_cast<double>(values.size()));
    std::memcpy(message, &mean, sizeof mean);
  }
  void decode(std::byte const* message, std::span<float> out) const noexcept {
    if (out.empty()) return;
    std::uint32_t mean;
    std::memcpy(&mean, message, sizeof mean);
    std::byte const* const bits = message + sizeof mean;
    std::size_t i = 0;
    for (; i + 8 <= out.size(); i += 8) give_signs(mean, bits[i / 8], out.data() + i, 8);
    if (i < out.size()) give_signs(mean, bits[i / 8], out.data() + i, out.size() - i);
  }

 private:
  static constexpr std::uint32_t sign = 0x80000000;

  // Eight values at a time, without branches, so that compilers use vector instructions. Bits above `sign` alone are negative
  // numbers but -0.
  static std::byte signs_of(float const* values, std::size_t n) noexcept {
    unsigned out = 0;
    for (std::size_t k = 0; k < n; ++k)
      out |= static_cast<unsigned>(std::bit_cast<std::uint32_t>(values[k]) > sign) << k;
    return static_cast<std::byte>(out);
  }
  static void give_signs(std::uint32_t mean, std::byte bits, float* out, std::size_t n) noexcept {
    auto const all = std::to_integer<std::uint32_t>(bits);
    for (std::size_t k = 0; k < n; ++k)
      out[k] = std::bit_cast<float>(mean ^ ((all & std::uint32_t{1} << k) != 0 ? sign : 0));
  }
};

}  // namespace tutti::training
