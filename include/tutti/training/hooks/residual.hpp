// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hook has not sent yet of the gradients of a rank, and adds to the next ones.
#pragma once

#include <cmath>
#include <span>

namespace tutti::detail {

// A gradient that has overflowed must not spoil all later ones.
inline float finite_or_zero(float x) { return std::isfinite(x) ? x : 0; }

// For gradients that will be as many times as large as before.
inline void scale_residual(std::span<float> residual, double by) {
  for (float& x : residual) x = finite_or_zero(static_cast<float>(static_cast<double>(x) * by));
}

}  // namespace tutti::detail
