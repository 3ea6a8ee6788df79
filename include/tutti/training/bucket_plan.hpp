// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which gradients share a bucket, and where they lie in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::training {

// The gradients of a model in one array, which buckets divide. Gradients that are ready at about the same time share a
// bucket, so few calls carry them, and the first calls start while most gradients are still being computed (Li et al.,
// "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020).
struct bucket_plan {
  struct bucket {
    std::size_t begin = 0, count = 0;  // of its elements
    std::vector<std::size_t> parameters{};
  };
  struct place {
    std::size_t bucket = 0, begin = 0, count = 0;
  };

  std::vector<bucket> buckets{};  // in the order in which they become full, and are reduced except by priority
  std::vector<place> places{};    // of each parameter
  std::size_t elements = 0;

  // Goes on at a cache line; adds an empty bucket, which begins at one; and adds a parameter of so many elements to the last
  // bucket, which needs a place already.
  void align(std::size_t element_bytes);
  void begin_bucket(std::size_t element_bytes);
  void add(std::size_t parameter, std::size_t count);
};

// How large buckets become. A gradient larger than a bucket has one of its own. The first bucket is smaller, so that its
// reduction starts early; and so is the last, because no computation of the step hides its reduction. `last_bytes` = 0: it is as
// large as others.
struct bucket_sizes {
  std::size_t bytes = std::size_t{25} << 20;
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t last_bytes = std::size_t{1} << 20;

  friend bool operator==(bucket_sizes const&, bucket_sizes const&) = default;
};

// `counts`: elements of each parameter. `order`: all parameters, in the order in which their gradients become ready. `others`:
// sizes with which a plan has all parameters in the same places, so that gradients need not move when these sizes change. Then
// a bucket may contain a few elements between parameters that belong to none.
bucket_plan plan_buckets(std::span<std::size_t const> counts, std::span<std::size_t const> order,
                         bucket_sizes const& sizes, std::size_t element_bytes,
                         std::span<bucket_sizes const> others = {});

}  // namespace tutti::training

namespace tutti::detail {

// The order in which gradients are assumed to become ready before that is known: those of the last layer first.
std::vector<std::size_t> last_first(std::size_t parameters);
// For expect_same_lines.
std::string line_about(training::bucket_sizes const& sizes);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/bucket_plan_impl.hpp"
#endif
