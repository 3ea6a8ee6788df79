// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hook gets: the gradients of a bucket; and the hook that averages them.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>

#include "tutti/call/communicator.hpp"
#include "tutti/call/options.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"

namespace tutti::training {

// The gradient of one parameter, in a bucket.
template <element T>
struct bucket_part {
  std::size_t parameter = 0;  // its place in the list of parameters
  std::span<T> gradient{};
  std::span<std::size_t const> shape{};  // of one dimension where the parameter has no shape
};

// Gradients that are reduced together. The spans are valid until the work of the hook has ended.
template <element T>
struct bucket {
  std::size_t index = 0;  // among the buckets of a step, in the order of the plan
  std::span<T> gradients{};
  // Of which the gradients consist, in this order. With data_parallel_options::adapt, there may be a few elements between them.
  std::span<bucket_part<T> const> parts{};
  // The program's call in which the hook is called. A hook passes it to the calls that it starts, so that their errors name it.
  std::source_location where{};
};

// How a bucket is reduced. A hook starts calls on the communicator, the same on all ranks, and returns the work after
// which the bucket contains its average. It must not start calls later, in a continuation. The same hook object serves
// all buckets, and is called for them in the same order on all ranks: that of their index, except by priority.
//
//   auto const sum = [](tutti::training::bucket<float> const& some, auto& comm) {
//     return tutti::all_reduce(tutti::async(comm), some.gradients, tutti::sum{}, {}, some.where);
//   };
template <class Hook, class T, class Transport>
concept bucket_hook = requires(Hook& hook, bucket<T> const& some, communicator<Transport>& comm) {
  { hook(some, comm) } -> std::convertible_to<work>;
};

// A hook whose later calls need the results of earlier ones starts these in a second round. finish() or wait() calls it for
// each bucket, in the order of their index or priority, after the first rounds of all buckets have started and that of this
// bucket has ended; so calls start in the same order on all ranks. The bucket contains its average after the work of this round.
template <class Hook, class T, class Transport>
concept hook_of_two_rounds =
    bucket_hook<Hook, T, Transport> && requires(Hook& hook, bucket<T> const& some, communicator<Transport>& comm) {
      { hook.second_round(some, comm) } -> std::convertible_to<work>;
    };

// A hook that sends more than the gradients of this step, such as what it could not send before. No optimiser applies the mean of a
// parameter that no rank has used, so with find_unused wait() or finish() lets the hook take back what it has sent for these: the
// parts of `unused`, which still contain their means. Not called for a bucket without such parameters.
template <class Hook, class T>
concept hook_that_takes_back = requires(Hook& hook, bucket<T> const& unused) { hook.take_back(unused); };

// The default: the mean over all ranks.
struct average {
  tutti::options options{};

  template <class T, class Transport>
  work operator()(bucket<T> const& some, communicator<Transport>& comm) const {
    return all_reduce(async(comm), some.gradients, mean{}, options, some.where);
  }
};

// What a rank contributes to the calls for a bucket or sharded_bucket: its gradients, or less if the hook has a member
//   std::size_t message_bytes(Bucket const& some) const
template <class Hook, class Bucket>
std::size_t message_bytes(Hook const& hook, Bucket const& some) {
  if constexpr (requires { hook.message_bytes(some); }) return hook.message_bytes(some);
  else return some.gradients.size_bytes();
}

}  // namespace tutti::training
