// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/hooks/low_rank.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/core/config.hpp"
#include "tutti/training/hooks/low_rank.hpp"
#include "tutti/training/hooks/residual.hpp"

namespace tutti::detail {

// In 16 partial sums, which a compiler can keep in vector registers.
TUTTI_INLINE float dot(float const* a, float const* b, std::size_t n) {
  constexpr std::size_t lanes = 16;
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t k = 0; k < lanes; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[i % lanes] += a[i] * b[i];
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}
// to += factor from
TUTTI_INLINE void add_multiple(float* to, float factor, float const* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

TUTTI_INLINE low_rank_message low_rank_message_for(std::size_t elements, std::span<std::size_t const> shape,
                                                   std::size_t rank) {
  if (shape.size() < 2 || rank >= elements) return {elements, elements, 0};
  std::size_t const rows = shape.front(), columns = elements / rows;
  if (rank * (rows + columns) >= elements) return {elements, elements, 0};
  return {elements, rank * rows, rank * columns};
}

TUTTI_INLINE void multiply(std::span<float const> m, low_rank const& by) {
  std::size_t const rows = by.rows(), columns = by.columns();
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < by.rank; ++k)
      by.p[k * rows + i] = dot(m.data() + i * columns, by.q.data() + k * columns, columns);
}

TUTTI_INLINE void multiply_transposed(std::span<float const> m, low_rank const& by) {
  std::size_t const rows = by.rows(), columns = by.columns();
  std::ranges::fill(by.q, 0.0f);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < by.rank; ++k)
      add_multiple(by.q.data() + k * columns, by.p[k * rows + i], m.data() + i * columns, columns);
}

TUTTI_INLINE void subtract(std::span<float> m, low_rank const& product) {
  std::size_t const rows = product.rows(), columns = product.columns();
  for (std::size_t i = 0; i < rows; ++i) {
    float* const row = m.data() + i * columns;
    for (std::size_t k = 0; k < product.rank; ++k)
      add_multiple(row, -product.p[k * rows + i], product.q.data() + k * columns, columns);
    for (std::size_t j = 0; j < columns; ++j) row[j] = finite_or_zero(row[j]);
  }
}

TUTTI_INLINE void expand(std::span<float> m, low_rank const& product) {
  std::size_t const rows = product.rows(), columns = product.columns();
  std::ranges::fill(m, 0.0f);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < product.rank; ++k)
      add_multiple(m.data() + i * columns, product.p[k * rows + i], product.q.data() + k * columns, columns);
}

TUTTI_INLINE void keep_usable(std::span<float> q) {
  if (!std::ranges::all_of(q, [](float x) { return std::isfinite(x); })) std::ranges::fill(q, 0.0f);
}

// From -1 to 1, by a hash of the seed and the place (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014).
TUTTI_INLINE float random_number(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t x = seed * 0xd1342543de82ef95u + (place + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-31f;
}

TUTTI_INLINE void orthonormalise(std::span<float> vectors, std::size_t count, std::uint64_t seed) {
  std::size_t const n = count == 0 ? 0 : vectors.size() / count;
  auto const product = [n](float const* a, float const* b) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  std::uint64_t drawn = 0;
  for (std::size_t k = 0; k < count; ++k) {
    float* const one = vectors.data() + k * n;
    // What is left of a vector that depends on others is the rounding of these, about 1e-7 of it.
    constexpr double dependent = 1e-6;
    for (int attempts = 0; attempts < 8; ++attempts) {
      double const before = std::sqrt(product(one, one));
      for (int twice = 0; twice < 2; ++twice)
        for (std::size_t other = 0; other < k; ++other) {
          float const* const done = vectors.data() + other * n;
          double const along = product(one, done);
          for (std::size_t i = 0; i < n; ++i)
            one[i] = static_cast<float>(static_cast<double>(one[i]) - along * static_cast<double>(done[i]));
        }
      double const after = std::sqrt(product(one, one));
      if (!(after <= dependent * before) || std::isinf(before)) {
        for (std::size_t i = 0; i < n; ++i) one[i] = static_cast<float>(static_cast<double>(one[i]) / after);
        break;
      }
      for (std::size_t i = 0; i < n; ++i) one[i] = random_number(seed, drawn++);
    }
  }
}

}  // namespace tutti::detail
