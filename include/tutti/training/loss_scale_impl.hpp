// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/loss_scale.hpp.
#pragma once

#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/loss_scale.hpp"

namespace tutti::training {

// Comparisons are false for NaN.
TUTTI_INLINE void loss_scale::expect_valid(double most_norm) const {
  auto const refuse = [](char const* name, double value, char const* way_out) {
    throw error(
        {.code = error_code::bad_argument, .what = tutti::detail::join({name, " is ", value}), .way_out = way_out});
  };
  if (!(factor > 0 && std::isfinite(factor)))
    refuse("loss_scale::factor", factor, "set it to a positive number, such as 65536: the loss is multiplied by it");
  if (!(growth >= 1))
    refuse("loss_scale::growth", growth,
           "set it to 1 or more, such as 2: the factor is multiplied by it after steps without overflow");
  if (!(backoff > 0 && backoff < 1))
    refuse("loss_scale::backoff", backoff,
           "set it between 0 and 1, such as 0.5: the factor is multiplied by it where gradients overflow");
  if (!(most_norm > 0))
    refuse("most_norm", most_norm, "pass a positive number: a larger norm of the gradients is reduced to it");
}

}  // namespace tutti::training
