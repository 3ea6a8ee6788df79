// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The 8-bit types, compared with CUDA's own, whose conversions run on the CPU here.
#include "tutti/reduce/float8.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cuda_fp8.h>

TEST_CASE_TEMPLATE("every 257th float has the code that CUDA gives it", T, tutti::float8_e4m3, tutti::float8_e5m2) {
  int wrong = 0;
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 257) {
    float const x = __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
    auto const interpretation = std::is_same_v<T, tutti::float8_e4m3> ? __NV_E4M3 : __NV_E5M2;
    wrong += T(x).bits != __nv_cvt_float_to_fp8(x, __NV_SATFINITE, interpretation);
  }
  CHECK(wrong == 0);
}

TEST_CASE("every code has the value that CUDA gives it") {
  int wrong = 0;
  for (int code = 0; code < 256; ++code) {
    auto const bits = static_cast<std::uint8_t>(code);
    auto const differ = [](float ours, float theirs) {
      bool const both_nan = ours != ours && theirs != theirs;
      return !both_nan && __builtin_bit_cast(std::uint32_t, ours) != __builtin_bit_cast(std::uint32_t, theirs);
    };
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = bits;
    wrong += differ(tutti::float8_e4m3::from_bits(bits), static_cast<float>(a));
    wrong += differ(tutti::float8_e5m2::from_bits(bits), static_cast<float>(b));
  }
  CHECK(wrong == 0);
}
