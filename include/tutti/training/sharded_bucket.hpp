// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hook of sharded training gets: the gradients of a bucket, whose means are divided among the ranks; and the hook
// that averages them.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>

#include "tutti/call/communicator.hpp"
#include "tutti/call/options.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"

namespace tutti::training {

// Gradients that are reduced together. Their memory belongs to the hook until its work has ended.
template <element T>
struct sharded_bucket {
  std::size_t index = 0;                  // among the buckets of a step, in the order in which they are reduced
  std::span<T> gradients{};               // of this rank
  std::span<std::size_t const> counts{};  // elements of each rank's part: adjacent, in rank order
  std::span<T> part{};                    // for the mean of this rank's part; may lie at its place in `gradients`
  std::source_location where{};           // as in bucket
};

// As bucket_hook, but only this rank's part is wanted: the work that it returns leaves the mean in `part`.
template <class Hook, class T, class Transport>
concept sharded_bucket_hook = requires(Hook& hook, sharded_bucket<T> const& some, communicator<Transport>& comm) {
  { hook(some, comm) } -> std::convertible_to<work>;
};

// The default: the mean over all ranks. By one_shot, because it combines contributions in rank order, so that an element has
// the same bits whatever bucket it is in.
struct average_shards {
  tutti::options options{.algorithm = algorithm_id::one_shot};

  template <class T, class Transport>
  work operator()(sharded_bucket<T> const& some, communicator<Transport>& comm) const {
    return reduce_scatter_v(async(comm), some.gradients, some.part, some.counts, mean{}, options, some.where);
  }
};

}  // namespace tutti::training
