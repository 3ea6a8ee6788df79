// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/sharded/deferred_model.hpp.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <source_location>
#include <span>
#include <string>

#include "tutti/core/config.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/sharded/deferred_model.hpp"

namespace tutti::detail {

TUTTI_INLINE model_outline outline_of(std::span<training::deferred_parameter const> all, int rank,
                                      std::source_location where) {
  model_outline out;
  for (training::deferred_parameter const& p : all) {
    std::size_t const count =
        std::accumulate(p.shape.begin(), p.shape.end(), std::size_t{1}, std::multiplies<std::size_t>());
    std::string const name = parameter_name(out.counts.size(), p.name);
    out.lines.push_back(name + " of shape " + parameter_shape(count, p.shape, name, rank, where));
    out.counts.push_back(count);
    out.names.push_back(name);
  }
  return out;
}

}  // namespace tutti::detail
