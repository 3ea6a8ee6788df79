// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Narrow types in which data travel between ranks, while inputs, accumulators and outputs stay wide. The codec is for hosts and
// devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/half.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti {

// A wire type: 8-bit elements, and for each block of them a scale, the least power of two that brings all finite elements into
// their range. Block: 128, 256 or 512.
template <class T, int Block = 128>
struct block_scaled {
  static_assert(std::is_same_v<T, float8_e4m3> || std::is_same_v<T, float8_e5m2>,
                "a scale is for float8_e4m3 and float8_e5m2; bfloat16 and half travel without one");
  static_assert(Block == 128 || Block == 256 || Block == 512, "a block has 128, 256 or 512 elements");
};

namespace detail {

// An operation, or `fused`, whose call may narrow what it sends.
template <class Wire, class How>
struct on_wire {
  How how;
};

}  // namespace detail

// A call of all_reduce may send data as Wire: half, bfloat16, or block_scaled. Elements must be combined in float. Each rank rounds
// what it publishes, once, to nearest: its contributions after the prologue, and in two_shot also the results after the epilogue.
// All ranks, the publisher included, use the rounded values, so results have the same bits everywhere. Nothing else is rounded
// until the result is stored. Ranks that do not read each other's memory over links send the data as they are.
//
// Error    a value x is published with an error of at most u |x|, where u is 2^-8 for bfloat16, 2^-11 for half between its least
//          normal and greatest numbers, 2^-4 for e4m3 and 2^-3 for e5m2; elements of a block that are smaller than about 2^-14 (e4m3)
//          or 2^-29 (e5m2) of its largest, with an absolute error of at most 2^-17 (2^-31) of that
// Not finite  infinity and NaN become NaN in block_scaled, and stay what they are in the others, where half overflows to infinity
//
//   tutti::all_reduce(ranks, gradient, tutti::wire<tutti::bfloat16>(tutti::mean{}));
//   tutti::all_reduce(ranks, gradient, tutti::wire<tutti::block_scaled<tutti::float8_e4m3>>(tutti::fused{tutti::sum{}}));
template <class Wire, class How>
constexpr detail::on_wire<Wire, How> wire(How how) {
  return {std::move(how)};
}

namespace detail {

// The operation alone.
template <class How>
constexpr How const& without_wire(How const& how) {
  return how;
}
template <class Wire, class How>
constexpr How const& without_wire(on_wire<Wire, How> const& op) {
  return op.how;
}

struct as_they_are {};
template <class>
struct wire_of {
  using type = as_they_are;
};
template <class Wire, class How>
struct wire_of<on_wire<Wire, How>> {
  using type = Wire;
};

template <class Wire, class How>
inline constexpr int arrays_of<on_wire<Wire, How>> = arrays_of<How>;
template <class Wire, class How>
inline constexpr bool has_shards<on_wire<Wire, How>> = has_shards<How>;

// How a block of elements travels: `block` elements, and in scaled formats the biased exponent of a power of two, as in the E8M0
// of the Open Compute Project. Values are multiplied by its inverse, which is exact.
template <class Wire>
struct wire_format {
  static_assert(std::is_same_v<Wire, half> || std::is_same_v<Wire, bfloat16>,
                "data travel as tutti::half, tutti::bfloat16 or tutti::block_scaled");
  using element = Wire;
  static constexpr std::size_t block = 128;
  static constexpr bool scaled = false;
};
template <class T, int Block>
struct wire_format<block_scaled<T, Block>> {
  using element = T;
  static constexpr std::size_t block = Block;
  static constexpr bool scaled = true;

  // The greatest finite number is 1.75 times this power of two, in both types.
  static constexpr int greatest_exponent = std::is_same_v<T, float8_e4m3> ? 8 : 15;

  // The scale of a block whose largest finite magnitude has these bits.
  TUTTI_HOST_DEVICE static constexpr std::uint8_t scale_for(std::uint32_t largest) {
    constexpr std::uint32_t mantissa_of_greatest = 0x600000;
    int const exponent = static_cast<int>(largest >> 23), up = (largest & 0x7fffff) > mantissa_of_greatest ? 1 : 0;
    int const scale = exponent - greatest_exponent + up;
    return static_cast<std::uint8_t>(scale < 1 ? 1 : scale);
  }
  TUTTI_HOST_DEVICE static constexpr float factor(std::uint8_t scale) { return float_of(std::uint32_t{scale} << 23); }
  TUTTI_HOST_DEVICE static constexpr float inverse(std::uint8_t scale) { return float_of((254u - scale) << 23); }

  // The bits of |x|; 0 unless it is finite.
  TUTTI_HOST_DEVICE static constexpr std::uint32_t magnitude(float x) {
    std::uint32_t const bits = bits_of(x) & 0x7fffffff;
    return bits < float_infinity ? bits : 0;
  }
  TUTTI_HOST_DEVICE static T encode(float x, float inverse) {
    bool const finite = (bits_of(x) & 0x7fffffff) < float_infinity;
    return finite ? narrowed<T>(x * inverse) : T::from_bits(float8_nan);
  }
};

// The bytes of so many blocks: their elements, then their scales.
template <class Format>
TUTTI_HOST_DEVICE constexpr std::size_t wire_bytes(std::size_t blocks) {
  return blocks * (Format::block * sizeof(typename Format::element) + (Format::scaled ? 1 : 0));
}

}  // namespace detail

}  // namespace tutti
