// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of narrow matrices, and their columns made perpendicular.
#include "tutti/training/hooks/low_rank.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <vector>

using namespace tutti::detail;

namespace {

std::vector<float> normal_numbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}
double inner_product_of(std::span<float const> vectors, std::size_t count, std::size_t a, std::size_t b) {
  std::size_t const n = vectors.size() / count;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += static_cast<double>(vectors[a * n + i]) * static_cast<double>(vectors[b * n + i]);
  return sum;
}
void check_orthonormal(std::span<float const> vectors, std::size_t count) {
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      CHECK(std::abs(inner_product_of(vectors, count, a, b) - (a == b ? 1 : 0)) < 1e-6);
}

}  // namespace

TEST_CASE("vectors become orthonormal, and span what they spanned") {
  for (std::size_t const n : {1u, 2u, 5u, 64u, 301u})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::min<std::size_t>(n, 4)}) {
      CAPTURE(n);
      CAPTURE(count);
      auto const before = normal_numbers(n * count, 1);
      auto vectors = before;
      orthonormalise(vectors, count, 1);
      check_orthonormal(vectors, count);
      for (std::size_t k = 0; k < count; ++k)  // nothing of a vector is left beside those up to its own
        for (std::size_t i = 0; i < n; ++i) {
          double left = before[k * n + i];
          for (std::size_t j = 0; j <= k; ++j) {
            double along = 0;
            for (std::size_t m = 0; m < n; ++m)
              along += static_cast<double>(before[k * n + m]) * static_cast<double>(vectors[j * n + m]);
            left -= along * static_cast<double>(vectors[j * n + i]);
          }
          CHECK(std::abs(left) < 1e-5);
        }
    }
}

TEST_CASE("vectors that are nearly parallel, of awkward magnitude, zero or dependent become orthonormal, too") {
  std::size_t const n = 50;
  auto vectors = normal_numbers(4 * n, 2);
  for (std::size_t i = 0; i < n; ++i) {
    vectors[i] *= 1e-30f;
    vectors[n + i] = vectors[i] * 1e30f + 1e-3f * vectors[n + i];  // nearly parallel to the first
    vectors[2 * n + i] = 0;
    vectors[3 * n + i] = 3 * vectors[n + i] * 1e20f;
  }
  auto other_seed = vectors;
  auto again = vectors;
  orthonormalise(vectors, 4, 7);
  check_orthonormal(vectors, 4);
  orthonormalise(again, 4, 7);
  CHECK(again == vectors);
  orthonormalise(other_seed, 4, 8);
  CHECK(std::equal(vectors.begin(), vectors.begin() + 2 * n, other_seed.begin()));
  CHECK(other_seed != vectors);
  vectors[3] = std::numeric_limits<float>::infinity();
  orthonormalise(vectors, 4, 7);
  CHECK(std::ranges::any_of(vectors, [](float x) { return std::isnan(x); }));
}

TEST_CASE("products with narrow matrices") {
  for (std::size_t const rows : {1u, 3u, 40u})
    for (std::size_t const columns : {1u, 16u, 37u})
      for (std::size_t const rank : {1u, 3u}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(rank);
        auto const m = normal_numbers(rows * columns, 3);
        auto p = normal_numbers(rank * rows, 4), q = normal_numbers(rank * columns, 5);
        std::vector<float> product(m.size()), mp(p.size()), mq(q.size()), left = m;
        expand(product, {rank, p, q});
        subtract(left, {rank, p, q});
        multiply(m, {rank, mp, q});
        multiply_transposed(m, {rank, p, mq});
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < columns; ++j) {
            float sum = 0;
            for (std::size_t k = 0; k < rank; ++k) sum += p[k * rows + i] * q[k * columns + j];
            CHECK(product[i * columns + j] == doctest::Approx(sum).epsilon(1e-5));
            CHECK(left[i * columns + j] == doctest::Approx(m[i * columns + j] - sum).epsilon(1e-4));
          }
        for (std::size_t k = 0; k < rank; ++k) {
          for (std::size_t i = 0; i < rows; ++i) {
            double sum = 0;
            for (std::size_t j = 0; j < columns; ++j) sum += m[i * columns + j] * q[k * columns + j];
            CHECK(std::abs(mp[k * rows + i] - sum) < 1e-4);
          }
          for (std::size_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::size_t i = 0; i < rows; ++i) sum += m[i * columns + j] * p[k * rows + i];
            CHECK(std::abs(mq[k * columns + j] - sum) < 1e-4);
          }
        }
      }
  std::vector<float> odd{std::numeric_limits<float>::quiet_NaN(), 1, std::numeric_limits<float>::infinity(), 3};
  std::vector<float> one{1}, four(4, 0.5f);
  subtract(odd, {1, one, four});
  CHECK(odd == std::vector<float>{0, 0.5f, 0, 2.5f});
}
