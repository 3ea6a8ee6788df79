// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimiser of what a rank owns of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/training/optimizers.hpp"
#include "tutti/training/sharded/master.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharded_parameters.hpp"

namespace tutti::detail {

// Its parameters are the parts of the shard, in their order.
template <class T, class Transport, class Rule>
class shard_optimizer {
  using number = training::master_of<T>;

 public:
  // Both outlive this.
  shard_optimizer(training::shard_plan const& shards, sharded_parameters<T, Transport>& parameters, Rule&& rule)
      : optimizer(parameters.owned(), std::move(rule)), shards_(shards), parameters_(parameters) {}

  training::optimizer<number, Rule> optimizer;

  // Changes a bucket's parts by their means, but for parameters that no rank has used. `used`: of each parameter, 1 or 0.
  template <class Gradients>
  void change(std::size_t bucket, training::bucket_plan const& plan, Gradients& means,
              std::span<std::uint8_t const> used, number scale, std::source_location where) {
    for (training::owned_part const& part : shards_.owned_in(bucket, plan))
      if (used[part.parameter] != 0)
        optimizer.update(static_cast<std::size_t>(&part - shards_.owned.data()), means.mine(part), scale, where);
  }

  // All parts, with their state.
  std::vector<training::shard_part<number>> parts() {
    std::vector<training::shard_part<number>> out;
    auto const state = optimizer.state();
    for (training::owned_part const& part : shards_.owned) {
      out.push_back({part.parameter, part.elements, parameters_.mine(part), {}});
      for (auto const& array : state) out.back().state.push_back(array.values.subspan(part.begin, part.elements.count));
    }
    return out;
  }

 private:
  training::shard_plan const& shards_;
  sharded_parameters<T, Transport>& parameters_;
};

}  // namespace tutti::detail
