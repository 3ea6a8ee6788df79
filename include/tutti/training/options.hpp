// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of data_parallel.
#pragma once

#include <string>

#include "tutti/training/bucket_plan.hpp"

namespace tutti {
namespace training {

// The same on all ranks, except for progress_thread.
struct data_parallel_options {
  bucket_sizes buckets{};
  int concurrent = 1;            // buckets that are reduced at the same time, each on a communicator of its own
  bool broadcast = true;         // all ranks start with the parameters of rank 0
  bool find_unused = false;      // parameters may take no part in a step; costs a small all_reduce per step
  bool rebuild = true;           // the first step's order of gradients decides on the buckets of those that follow
  bool progress_thread = false;  // a thread that drives reductions while the program computes
};

}  // namespace training

namespace detail {

// What ranks must agree on, for expect_same_lines.
std::string line_about(training::data_parallel_options const& options);

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/options_impl.hpp"
#endif
