// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The factor of a loss whose small gradients would vanish in half precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

namespace tutti::training {

// A hook that keeps gradients of this step for the next one. hook.rescale(by) multiplies them.
template <class Hook>
concept keeps_residuals = requires(Hook& hook) { hook.rescale(1.0); };

// A program multiplies its loss by `factor`, and so its gradients. Where these overflow, the step is skipped and the factor becomes
// smaller; after `growth_after` steps without that it becomes larger (Micikevicius et al., "Mixed Precision Training", ICLR 2018).
// Ranks agree on this by passing the norm of all gradients, which is the same on all: infinite or no number if any gradient is.
// These are the constants of PyTorch's GradScaler. A checkpoint stores the object as it is.
//
//   tutti::training::loss_scale scale;
//   // ... gradients of scale.factor * loss ...
//   model.finish();
//   descent.step(model, scale.update(gradient_norm(model)));
struct loss_scale {
  double factor = 65536;
  double growth = 2, backoff = 0.5;
  int growth_after = 2000;  // steps; 0: never
  int steps = 0;            // since the factor has changed, if it grows
  // It becomes no smaller, so that gradients do not vanish if all overflow for a while, as those of data that contain NaN do.
  static constexpr double least = 0x1p-24;
  // It grows no larger, so that a float can hold it, and it remains a number when gradients are zero for a long time.
  static constexpr double most = 0x1p127;

  // After a backward pass. Returns by what the step must multiply the gradients, so that their norm without the factor is
  // `most_norm` at most: 0 if the step is skipped. Throws error: bad_argument, before anything changes, unless `factor` is
  // positive and finite, `growth` is at least 1, `backoff` is between 0 and 1, and `most_norm` is positive.
  [[nodiscard("the step must multiply the gradients by it")]] double update(
      double norm_of_gradients, double most_norm = std::numeric_limits<double>::infinity()) {
    expect_valid(most_norm);
    double const scale = std::min(1 / factor, most_norm / norm_of_gradients);
    if (!std::isfinite(norm_of_gradients)) {
      factor = std::max(factor * backoff, least);
      steps = 0;
      return 0;
    }
    if (growth_after > 0 && ++steps >= growth_after) {
      factor = std::min(factor * growth, std::max(factor, most));
      steps = 0;
    }
    return scale;
  }
  // The same for a hook whose residuals are gradients of the loss times `factor`: they must follow it.
  //
  //   descent.step(model, scale.update(model.hook(), gradient_norm(model)));
  template <keeps_residuals Hook>
  [[nodiscard("the step must multiply the gradients by it")]] double update(
      Hook& hook, double norm_of_gradients, double most_norm = std::numeric_limits<double>::infinity()) {
    double const before = factor, scale = update(norm_of_gradients, most_norm);
    if (factor != before) hook.rescale(factor / before);
    return scale;
  }

 private:
  [[gnu::cold]] void expect_valid(double most_norm) const;
};

static_assert(std::is_trivially_copyable_v<loss_scale>);

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/loss_scale_impl.hpp"
#endif
