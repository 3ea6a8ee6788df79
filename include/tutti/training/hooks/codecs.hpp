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
#include <limits>
#include <numeric>
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
    std::vector<std::uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    auto const chosen = order.begin() + static_cast<std::ptrdiff_t>(count(values.size()));
    auto const larger = [&](std::uint32_t a, std::uint32_t b) {
      std::uint32_t const x = magnitude(values[a]), y = magnitude(values[b]);
      return x != y ? x > y : a < b;
    };
    if (chosen != order.end()) std::nth_element(order.begin(), chosen, order.end(), larger);
    std::sort(order.begin(), chosen);
    for (auto at = order.begin(); at != chosen; ++at, message += sizeof(entry)) {
      entry const one{*at, values[*at]};
      std::memcpy(message, &one, sizeof one);
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
      double const units_of_one = std::ldexp(1.0, -exponent);
      for (float const x : part) *message++ = static_cast<std::byte>(whole(static_cast<double>(x) * units_of_one));
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
    float largest = 0;
    for (float const x : part) {
      if (!std::isfinite(x)) return not_finite;
      largest = std::max(largest, std::abs(x));
    }
    return largest == 0 ? lowest : std::max(lowest, std::ilogb(largest) - 6);
  }
  // The nearest whole number; of two the larger in magnitude.
  static int whole(double x) noexcept { return std::clamp(static_cast<int>(x < 0 ? x - 0.5 : x + 0.5), -127, 127); }
};

// The sign of each value; all have the mean magnitude of the bucket. 1 bit for each value, and 4 bytes. Zero counts as
// positive. Only with error feedback does training converge. (Karimireddy et al., "Error Feedback Fixes SignSGD and
// other Gradient Compression Schemes", ICML 2019.)
struct one_bit_signs {
  std::size_t message_bytes(std::size_t n) const noexcept { return n == 0 ? 0 : sizeof(float) + (n + 7) / 8; }

  void encode(std::span<float const> values, std::byte* message) const noexcept {
    if (values.empty()) return;
    double sum = 0;
    for (float const x : values) sum += std::abs(static_cast<double>(x));
    auto const mean = static_cast<float>(sum / static_cast<double>(values.size()));
    std::memcpy(message, &mean, sizeof mean);
    std::byte* const bits = message + sizeof mean;
    std::fill_n(bits, (values.size() + 7) / 8, std::byte{0});
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::signbit(values[i]) && values[i] != 0) bits[i / 8] |= std::byte{1} << (i % 8);
  }
  void decode(std::byte const* message, std::span<float> out) const noexcept {
    if (out.empty()) return;
    float mean;
    std::memcpy(&mean, message, sizeof mean);
    std::byte const* const bits = message + sizeof mean;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = (bits[i / 8] >> (i % 8) & std::byte{1}) == std::byte{0} ? mean : -mean;
  }
};

}  // namespace tutti::training
