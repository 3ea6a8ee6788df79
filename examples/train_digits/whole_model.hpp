// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model that every rank holds as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/training.hpp>

#include "hooks.hpp"

// Has the functions of sharded_data_parallel that a network calls. `hook` is a name of named_hooks().
template <class Communicator>
class whole_model {
 public:
  whole_model(Communicator& comm, std::vector<tutti::training::parameter<float>> const& parameters,
              tutti::training::momentum const& rule, tutti::training::data_parallel_options const& options,
              std::string const& hook)
      : parameters_(parameters),
        gradients_(comm, parameters, options, chosen_hook{named_hooks().at(hook)}),
        descent_(parameters, rule) {}

  struct always_here {
    ~always_here() {}  // so that an object of it counts as used
  };
  always_here gather(std::size_t) const { return {}; }
  std::span<float const> parameter(std::size_t i) const { return parameters_[i].values; }
  std::span<float> gradient(std::size_t i) { return gradients_.gradient(i); }
  void ready(std::size_t i) { gradients_.ready(i); }
  void step() {
    gradients_.finish();
    descent_.step(gradients_);
  }
  tutti::training::training_statistics const& statistics() const { return gradients_.statistics(); }

  // A step without communication is one that ends by step_alone() while the object of accumulate() exists.
  [[nodiscard]] tutti::training::accumulation accumulate() { return gradients_.accumulate(); }
  void step_alone() {
    descent_.begin_step();
    for (std::size_t i = 0; i < parameters_.size(); ++i) descent_.update(i, gradient(i));
  }

 private:
  using data_parallel = decltype(tutti::training::data_parallel(
      std::declval<Communicator&>(), std::declval<std::vector<tutti::training::parameter<float>> const&>(),
      tutti::training::data_parallel_options{}, std::declval<chosen_hook>()));

  std::vector<tutti::training::parameter<float>> parameters_;
  data_parallel gradients_;
  tutti::training::optimizer<float, tutti::training::momentum> descent_;
};
