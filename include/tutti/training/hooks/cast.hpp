// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cast_to: a hook that sends gradients in a narrower type.
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/reduce/convert_array.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/sharded_bucket.hpp"

namespace tutti::training {

// Gradients travel as Narrow: bfloat16, half, float8_e5m2 or float8_e4m3. Every contribution is rounded to it once, sums
// are computed in float, and their mean is rounded once more, whatever the number of ranks. A gradient x is thus off by
// at most about 2 u times the mean of |x| over the ranks, where u is 2^-8 for bfloat16, 2^-11 for half, 2^-3 for e5m2
// and 2^-4 for e4m3, within the range of the type. What is beyond it becomes infinity, or NaN in the types of 8 bits, so that a
// loss_scale notices. A single rank rounds nothing.
//
// The algorithm is two_shot because it combines all contributions to an element at once; others would round partial
// sums.
//
//   tutti::training::data_parallel model(comm, parameters, {}, tutti::training::cast_to<tutti::bfloat16>{});
template <element Narrow>
class cast_to {
 public:
  template <class T, class Transport>
  work operator()(bucket<T> const& some, communicator<Transport>& comm) {
    if (comm.size() == 1) return {};
    std::vector<Narrow>& sent = narrowed(some.index, some.gradients);
    return all_reduce(async(comm), sent, mean{}, {.algorithm = algorithm_id::two_shot}, some.where)
        .then([from = std::span<Narrow const>(sent), to = some.gradients] {
          tutti::detail::convert_array(from.data(), to.data(), from.size());
        });
  }

  // For sharded_data_parallel; the copy is freed as soon as the part has its mean.
  template <class T, class Transport>
  work operator()(sharded_bucket<T> const& some, communicator<Transport>& comm) {
    if (comm.size() == 1) return average_shards{}(some, comm);
    std::vector<Narrow>& sent = narrowed(some.index, some.gradients);
    std::size_t begin = 0;
    for (int r = 0; r < comm.rank(); ++r) begin += some.counts[static_cast<std::size_t>(r)];
    std::span<Narrow> const mine = std::span(sent).subspan(begin, some.part.size());
    return reduce_scatter_v(async(comm), sent, mine, some.counts, mean{}, {.algorithm = algorithm_id::one_shot},
                            some.where)
        .then([&sent, mine, to = some.part] {
          tutti::detail::convert_array(mine.data(), to.data(), mine.size());
          std::vector<Narrow>().swap(sent);
        });
  }

  template <class Bucket>
  std::size_t message_bytes(Bucket const& some) const {
    return some.gradients.size() * sizeof(Narrow);
  }

 private:
  template <class T>
  std::vector<Narrow>& narrowed(std::size_t index, std::span<T> gradients) {
    while (sent_.size() <= index) sent_.emplace_back();
    sent_[index].resize(gradients.size());
    tutti::detail::convert_array(gradients.data(), sent_[index].data(), gradients.size());
    if constexpr (sizeof(Narrow) == 1) {  // conversions to these saturate
      constexpr auto most = static_cast<float>(std::numeric_limits<Narrow>::max());
      for (std::size_t i = 0; i < gradients.size(); ++i)
        if (!(std::abs(static_cast<float>(gradients[i])) <= most))
          sent_[index][i] = std::numeric_limits<Narrow>::quiet_NaN();
    }
    return sent_[index];
  }

  std::deque<std::vector<Narrow>> sent_;  // of each bucket; must stay until its call has ended
};

}  // namespace tutti::training
