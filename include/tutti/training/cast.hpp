// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cast_to: a hook that sends gradients in a narrower type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket.hpp"

namespace tutti::training {

// Gradients travel as Narrow: bfloat16, half, float8_e5m2 or float8_e4m3. Every contribution is rounded to it once, sums
// are computed in float, and their mean is rounded once more, whatever the number of ranks. A gradient x is thus off by
// at most about 2 u times the mean of |x| over the ranks, where u is 2^-8 for bfloat16, 2^-11 for half, 2^-3 for e5m2
// and 2^-4 for e4m3, within the range of the type. A single rank rounds nothing.
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
    if (sent_.size() <= some.index) sent_.resize(some.index + 1);
    std::vector<Narrow>& sent = sent_[some.index];
    sent.resize(some.gradients.size());
    std::ranges::transform(some.gradients, sent.begin(), [](T x) { return Narrow(static_cast<float>(x)); });
    return all_reduce(async(comm), sent, mean{}, {.algorithm = algorithm_id::two_shot})
        .then([from = std::span<Narrow const>(sent), to = some.gradients] {
          std::ranges::transform(from, to.begin(), [](Narrow x) { return static_cast<T>(x); });
        });
  }

 private:
  std::vector<std::vector<Narrow>> sent_;  // of each bucket; must stay until its call has ended
};

}  // namespace tutti::training
