// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between elements and accumulators, by device instructions where they exist. Results have the bits of half.hpp and
// float8.hpp, except for the sign and payload of a NaN.
#pragma once

#include <concepts>
#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti::detail {

template <class A, class T>
TUTTI_HOST_DEVICE inline A widened(T const& x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::same_as<A, float> && std::same_as<T, half>) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
    return out;
  } else if constexpr (std::same_as<A, float> && std::same_as<T, float8_e5m2>) {
    return widened<float>(half::from_bits(static_cast<std::uint16_t>(x.bits << 8)));
  }
#if __CUDA_ARCH__ >= 890
  else if constexpr (std::same_as<A, float> && std::same_as<T, float8_e4m3>) {
    std::uint32_t two_halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two_halves) : "h"(std::uint16_t{x.bits}));
    return widened<float>(half::from_bits(static_cast<std::uint16_t>(two_halves)));
  }
#endif
  else
#endif
    return static_cast<A>(x);
}

template <class T, class A>
TUTTI_HOST_DEVICE inline T narrowed(A const& x) {
#if defined(__CUDA_ARCH__)
  [[maybe_unused]] std::uint16_t bits = 0;
  if constexpr (std::same_as<A, float> && std::same_as<T, half>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return half::from_bits(bits);
  }
#if __CUDA_ARCH__ >= 800
  else if constexpr (std::same_as<A, float> && std::same_as<T, bfloat16>) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bfloat16::from_bits(bits);
  }
#endif
#if __CUDA_ARCH__ >= 890
  else if constexpr (std::same_as<A, float> && std::same_as<T, float8_e4m3>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x));
    return T::from_bits(static_cast<std::uint8_t>(bits));
  } else if constexpr (std::same_as<A, float> && std::same_as<T, float8_e5m2>) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x));
    return T::from_bits(static_cast<std::uint8_t>(bits));
  }
#endif
  else
#endif
    return static_cast<T>(x);
}

// Returns x. The multiplication by one with explicit rounding keeps the device compiler from fusing x with the sum that follows.
template <class A>
TUTTI_HOST_DEVICE inline A rounded(A x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::same_as<A, float>) asm("mul.rn.f32 %0, %0, 0f3F800000;" : "+f"(x));
  if constexpr (std::same_as<A, double>) asm("mul.rn.f64 %0, %0, 0d3FF0000000000000;" : "+d"(x));
#endif
  return x;
}

}  // namespace tutti::detail
