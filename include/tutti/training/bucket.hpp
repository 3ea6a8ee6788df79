// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hook gets: the gradients of a bucket; and the hook that averages them.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "tutti/call/communicator.hpp"
#include "tutti/call/options.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"

namespace tutti::training {

// Gradients that are reduced together.
template <element T>
struct bucket {
  std::size_t index = 0;     // among the buckets of a step, in the order in which they are reduced
  std::size_t layout = 0;    // changes when gradients are divided into buckets anew
  std::span<T> gradients{};  // until the work of the hook has ended
};

// How a bucket is reduced. A hook starts calls on the communicator, the same on all ranks, and returns the work after
// which the bucket contains its average. It must not start calls later, in a continuation. The same hook object serves
// all buckets, and is called for each in the order of their index.
//
//   auto const sum = [](tutti::training::bucket<float> const& some, auto& comm) {
//     return tutti::all_reduce(tutti::async(comm), some.gradients, tutti::sum{});
//   };
template <class Hook, class T, class Transport>
concept bucket_hook = requires(Hook& hook, bucket<T> const& some, communicator<Transport>& comm) {
  { hook(some, comm) } -> std::convertible_to<work>;
};

// The default: the mean over all ranks.
struct average {
  tutti::options options{};

  template <class T, class Transport>
  work operator()(bucket<T> const& some, communicator<Transport>& comm) const {
    return all_reduce(async(comm), some.gradients, mean{}, options);
  }
};

}  // namespace tutti::training
