// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/sharded/deferred_model.hpp.
#pragma once

#include <limits>

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/training/sharded/deferred_model.hpp"

namespace tutti::detail {

TUTTI_INLINE model_outline outline_of(std::span<training::deferred_parameter const> all, int rank,
                                      std::source_location where) {
  std::size_t left = std::numeric_limits<std::ptrdiff_t>::max() / 16;  // elements of the model, of at most 16 bytes
  model_outline out;
  for (training::deferred_parameter const& p : all) {
    std::string const name = parameter_name(out.counts.size(), p.name);
    std::size_t count = 1;
    bool fits = true;
    for (std::size_t const extent : p.shape) {
      fits = fits && (extent == 0 || count <= left / extent);
      count *= extent;
    }
    if (!fits || count > left)
      refuse(rank, name + " gives the model more elements than can be counted",
             "pass the extents of its dimensions as its shape", where);
    left -= count;
    out.lines.push_back(name + " of shape " + parameter_shape(count, p.shape, name, rank, where));
    out.counts.push_back(count);
    out.names.push_back(name);
  }
  return out;
}

}  // namespace tutti::detail
