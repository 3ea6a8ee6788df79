// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/options.hpp.
#pragma once

#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/options.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string line_about(training::data_parallel_options const& options) {
  return join({"buckets of ", options.buckets.first_bytes, " and ", options.buckets.bytes,
               " bytes, concurrent = ", options.concurrent, ", broadcast = ", options.broadcast,
               ", find_unused = ", options.find_unused, ", rebuild = ", options.rebuild});
}

}  // namespace tutti::detail
