// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/epoch_order.hpp.
#pragma once

#include <numeric>
#include <random>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/training/epoch_order.hpp"

namespace tutti::training {

TUTTI_INLINE std::vector<std::size_t> epoch_order(std::size_t examples, std::uint64_t seed, std::uint64_t epoch) {
  // The standard specifies this engine and seed_seq, but neither std::shuffle nor its distributions.
  std::seed_seq numbers{seed & 0xffffffffu, seed >> 32, epoch & 0xffffffffu, epoch >> 32};
  std::mt19937_64 random(numbers);
  std::vector<std::size_t> out(examples);
  std::iota(out.begin(), out.end(), std::size_t{0});
  for (std::size_t left = examples; left > 1; --left) std::swap(out[left - 1], out[random() % left]);
  return out;
}

}  // namespace tutti::training
