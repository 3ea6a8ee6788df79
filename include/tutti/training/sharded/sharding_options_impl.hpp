// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/sharded/sharding_options.hpp.
#pragma once

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharding_options.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string line_about(training::sharding_options const& options) {
  std::string out = join({"stage = ", options.stage, ", ", line_about(options.buckets),
                          ", prefetch = ", options.prefetch, ", find_unused = ", options.find_unused, ", units of"});
  for (std::size_t const unit : options.units) out += join({" ", unit});
  return out + " parameters";
}

TUTTI_INLINE void check_options(training::sharding_options const& options, int rank, std::source_location where) {
  if (options.stage < 1 || options.stage > 3)
    refuse(rank, join({"sharding_options::stage is ", options.stage}),
           "pass 1, 2 or 3; without sharding, use data_parallel", where);
  if (options.buffers < 1)
    refuse(rank, "sharding_options::buffers is 0", "pass the number of buckets of gradients to keep in memory", where);
}

TUTTI_INLINE training::bucket_plan plan_for(training::sharding_options const& options,
                                            std::span<std::size_t const> counts, std::span<std::size_t const> units,
                                            std::size_t element_bytes) {
  if (options.stage == 3) return training::plan_units(counts, units, element_bytes);
  return training::plan_buckets(counts, last_first(counts.size()), options.buckets, element_bytes);
}

}  // namespace tutti::detail
