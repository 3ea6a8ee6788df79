// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a training run whose values follow from the step, so that a test knows what a checkpoint must restore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/training/checkpoint/checkpoint.hpp"

namespace tutti::testing {

class checkpointed_state {
 public:
  static constexpr std::size_t whole = 1003;

  checkpointed_state(int rank, int ranks)
      : own_(part(whole, ranks, rank)),
        rank_(static_cast<std::uint64_t>(rank)),
        divided_(own_.count),
        local_(rank_ % 3) {}

  std::vector<training::saved_array> arrays() {
    return {training::replicated("weights", weights_), training::replicated("random", random_),
            training::divided("momentum", divided_), training::per_rank("residual", local_),
            training::replicated("nothing", nothing_)};
  }
  void set(std::uint64_t step) {
    random_.seed(static_cast<unsigned>(step));
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = value(step, i);
    for (std::size_t i = 0; i < divided_.size(); ++i) divided_[i] = static_cast<float>(value(step, own_.begin + i));
    for (auto& x : local_) x = step * 100 + rank_;
  }
  bool is_of(std::uint64_t step, bool with_local) const {
    checkpointed_state right = *this;
    right.set(step);
    return weights_ == right.weights_ && random_ == right.random_ && divided_ == right.divided_ &&
           (!with_local || local_ == right.local_);
  }
  bool has_own_of(std::uint64_t step) const {
    checkpointed_state right = *this;
    right.set(step);
    return local_ == right.local_;
  }

 private:
  static double value(std::uint64_t step, std::size_t i) { return static_cast<double>(step * 10007 + i * i % 1009); }

  extent own_;
  std::uint64_t rank_;
  std::vector<double> weights_ = std::vector<double>(257), nothing_;
  std::mt19937 random_;
  std::vector<float> divided_;
  std::vector<std::uint64_t> local_;
};

template <class Comm>
void save_step(Comm& comm, training::checkpoints& saved, std::uint64_t step) {
  checkpointed_state state(comm.rank(), comm.size());
  state.set(step);
  saved.save(comm, step, state.arrays());
}

// Loads into a state of other values, and expects those of the step that load() names.
template <class Comm>
training::resumed load_step(Comm& comm, training::checkpoints& saved) {
  checkpointed_state state(comm.rank(), comm.size());
  state.set(1000000);
  training::resumed const out = saved.load(comm, state.arrays());
  expect(state.is_of(out.found ? out.step : 1000000, !out.found || out.per_rank), "the restored values are wrong");
  return out;
}

}  // namespace tutti::testing
