// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an all_reduce computes whose data travel as a narrower type, in plain arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tutti/algorithm/registry.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::testing {

// Values of very different magnitudes within each block, none of which overflows in a sum.
inline std::vector<float> wire_values(int rank, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = std::ldexp(static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 11) % 201) - 100.0f,
                        static_cast<int>(i % 23) - 11 + static_cast<int>(i / 300 % 64));
  return out;
}

template <class Wire>
struct wire_rounding {
  static void round(float* begin, float* end) {
    for (; begin != end; ++begin) *begin = float{Wire(*begin)};
  }
};
template <class T, int Block>
struct wire_rounding<block_scaled<T, Block>> {
  static void round(float* begin, float* end) {
    float const greatest = float{std::numeric_limits<T>::max()};
    for (; begin != end;) {
      float* const next = begin + std::min<std::ptrdiff_t>(Block, end - begin);
      float largest = 0;
      for (float const* x = begin; x != next; ++x) largest = std::max(largest, std::fabs(*x));
      int exponent = -126;
      while (std::ldexp(greatest, exponent) < largest) ++exponent;
      for (; begin != next; ++begin) *begin = std::ldexp(float{T(std::ldexp(*begin, -exponent))}, exponent);
    }
  }
};

// The sum of `before` times the values of all ranks, times `after`. one_shot rounds contributions; two_shot rounds each chunk of
// them, and the results.
template <class Wire>
std::vector<float> wire_reference(int ranks, std::size_t n, algorithm_id by, float before, float after) {
  int const chunks = by == algorithm_id::one_shot ? 1 : ranks;
  auto const round = [&](std::vector<float>& all) {
    for (int q = 0; q < chunks; ++q) {
      extent const chunk = shard_of(n, chunks, q);
      wire_rounding<Wire>::round(all.data() + chunk.begin, all.data() + chunk.end());
    }
  };
  std::vector<float> out(n);
  for (int r = 0; r < ranks; ++r) {
    std::vector<float> x = wire_values(r, n);
    for (float& value : x) value *= before;
    round(x);
    for (std::size_t i = 0; i < n; ++i) out[i] = r == 0 ? x[i] : out[i] + x[i];
  }
  for (float& value : out) value *= after;
  if (chunks > 1) round(out);
  return out;
}

}  // namespace tutti::testing
