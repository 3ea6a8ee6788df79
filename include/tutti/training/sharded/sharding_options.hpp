// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of sharded_data_parallel.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/training/bucket_plan.hpp"

namespace tutti {
namespace training {

// The same on all ranks, except for buffers and progress_thread.
struct sharding_options {
  int stage = 2;  // what is divided. 1: the state of the optimiser; 2: gradients, too; 3: parameters, too
  std::vector<std::size_t> units{};  // parameters of each unit, which follow one another; if empty, each is a unit
  bucket_sizes buckets{};            // in stages 1 and 2; in stage 3 a unit is a bucket
  std::size_t buffers = 2;           // stages 2 and 3: buckets of gradients for which there is memory at a time
  std::size_t prefetch = 1;          // stage 3: units that are gathered ahead
  bool find_unused = false;          // parameters may take no part in a step; costs a small all_reduce per pass
  bool progress_thread = false;      // a thread that drives communication while the program computes
};

}  // namespace training

namespace detail {

// What ranks must agree on, for expect_same_lines.
std::string line_about(training::sharding_options const& options);
// Throws bad_argument.
void check_options(training::sharding_options const& options, int rank, std::source_location where);
// The buckets.
training::bucket_plan plan_for(training::sharding_options const& options, std::span<std::size_t const> counts,
                               std::span<std::size_t const> units, std::size_t element_bytes);

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/sharded/sharding_options_impl.hpp"
#endif
