// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of pipeline, the sizes of its activations, and what it has cost.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "tutti/reduce/types.hpp"

namespace tutti::training {

// The same on all ranks, except for recompute, prefetch and progress_thread.
struct pipeline_options {
  int microbatches = 1;          // into which each batch is divided
  bool recompute = false;        // keep only a stage's input, and run its forward pass again before its backward pass
  int prefetch = 2;              // receives that are started ahead of their step, each with a buffer of its own
  bool progress_thread = false;  // a thread that drives messages while the program computes
};

// The number of elements of the activation of one microbatch that stage s passes to stage s + 1, for each s. A single number
// holds for all stages. The same on all ranks.
template <element T>
struct activations {
  std::vector<std::size_t> elements;
};

// Sums over all calls of run() of one rank.
struct pipeline_statistics {
  std::size_t batches = 0;
  std::size_t bytes = 0;                 // sent, activations and gradients
  std::chrono::nanoseconds computing{};  // in the functions of stages
  std::chrono::nanoseconds elapsed{};    // in run()

  // The time in which this rank did not compute, as a share of the time in which it did; see pipeline_timeline::bubble.
  double bubble() const { return computing.count() == 0 ? 0 : std::chrono::duration<double>(elapsed) / computing - 1; }
};

}  // namespace tutti::training
