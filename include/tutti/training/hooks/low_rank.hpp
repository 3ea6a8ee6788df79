// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrices of low rank: the computations of power_sgd on one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::detail {

// The product p transposed(q) of `rank` columns each, which lie one after another. Matrices m of the functions below lie
// row by row; each function passes over m once, and takes 2 `rank` operations per element.
struct low_rank {
  std::size_t rank = 1;
  std::span<float> p{}, q{};

  std::size_t rows() const { return p.size() / rank; }
  std::size_t columns() const { return q.size() / rank; }
};

// How power_sgd sends a gradient: as it is, or as p and q, if these have fewer numbers.
struct low_rank_message {
  std::size_t elements = 0;           // of the gradient
  std::size_t first = 0, second = 0;  // numbers of p, or all; and of q, or none
};
// A matrix has as many rows as the first extent of the shape says.
low_rank_message low_rank_message_for(std::size_t elements, std::span<std::size_t const> shape, std::size_t rank);

// p = m q
void multiply(std::span<float const> m, low_rank const& by);
// q = transposed(m) p
void multiply_transposed(std::span<float const> m, low_rank const& by);
// m -= p transposed(q). What is no number afterwards becomes 0.
void subtract(std::span<float> m, low_rank const& product);
// m = p transposed(q)
void expand(std::span<float> m, low_rank const& product);
// What is no number in the q of a step would remain so in all steps to come: then all of it becomes zero, which orthonormalise replaces.
void keep_usable(std::span<float> q);

// Makes vectors of equal length, which lie one after another, perpendicular to each other and of length 1, by the modified
// Gram-Schmidt process. It runs twice, because once leaves an error that grows with their condition (Giraud, Langou and
// Rozloznik, "The loss of orthogonality in the Gram-Schmidt orthogonalization process", 2005). A vector that is zero, or depends
// on those before it, is replaced by pseudo-random numbers. The bits of the result depend on the vectors and the seed alone.
// Infinities and NaNs become NaNs. There must not be more vectors than they have elements.
void orthonormalise(std::span<float> vectors, std::size_t count, std::uint64_t seed);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/hooks/low_rank_impl.hpp"
#endif
