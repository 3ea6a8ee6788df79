// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of data_parallel.
#pragma once

#include <optional>
#include <source_location>
#include <string>

#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/bucket_search.hpp"

namespace tutti {
namespace training {

// The same on all ranks, except for progress_thread.
struct data_parallel_options {
  bucket_sizes buckets{};
  // Steps try other sizes, too, and keep one with which they clearly take less time; bits then differ from run to run, unless the
  // hook adds in rank order. Costs an all_reduce of 8 bytes every few steps.
  std::optional<adaptive_buckets> adapt{};
  int concurrent = 1;  // buckets that are reduced at the same time, each on a communicator of its own
  // Buckets that the next forward pass needs first are reduced first; see data_parallel::wait. Costs an all_reduce of 8 bytes for
  // each bucket.
  bool by_priority = false;
  bool broadcast = true;         // all ranks start with the parameters of rank 0
  bool find_unused = false;      // parameters may take no part in a step; costs a small all_reduce per step
  bool rebuild = true;           // the first step's order of gradients decides on the buckets of those that follow
  bool progress_thread = false;  // a thread that drives reductions while the program computes
};

}  // namespace training

namespace detail {

// What ranks must agree on, for expect_same_lines.
std::string line_about(training::data_parallel_options const& options);

// Throws bad_argument on this rank if an option is outside its range.
void expect_valid(training::data_parallel_options const& options, int rank, std::source_location where);

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/options_impl.hpp"
#endif
