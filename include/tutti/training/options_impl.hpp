// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/options.hpp.
#pragma once

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/options.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string line_about(training::data_parallel_options const& options) {
  std::string const adapt = options.adapt ? join({options.adapt->least_bytes, " to ", options.adapt->most_bytes,
                                                  " bytes, ", options.adapt->steps, " steps each"})
                                          : "none";
  return join({line_about(options.buckets), ", adapt = ", adapt, ", concurrent = ", options.concurrent,
               ", by_priority = ", options.by_priority, ", broadcast = ", options.broadcast,
               ", find_unused = ", options.find_unused, ", rebuild = ", options.rebuild});
}

TUTTI_INLINE void expect_valid(training::data_parallel_options const& options, int rank, std::source_location where) {
  if (options.concurrent < 1)
    refuse(rank, "data_parallel_options::concurrent is less than 1",
           "pass the number of buckets to reduce at the same time", where);
  if (!options.adapt) return;
  if (options.adapt->least_bytes < 1 || options.adapt->least_bytes > options.adapt->most_bytes)
    refuse(rank,
           join({"adaptive_buckets has the range of ", options.adapt->least_bytes, " to ", options.adapt->most_bytes,
                 " bytes"}),
           "pass least_bytes of 1 or more, and most_bytes that are not less", where);
  if (options.adapt->steps < 1)
    refuse(rank, "adaptive_buckets::steps is less than 1", "pass the number of steps to make with each size", where);
}

}  // namespace tutti::detail
