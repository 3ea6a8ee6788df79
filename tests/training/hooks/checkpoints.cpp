// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What hooks have not sent yet goes through a checkpoint, and the run that continues has the bits of one without interruption.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

struct hooked_weights {
  std::vector<float> matrix = std::vector<float>(600, 0.5f), offsets = std::vector<float>(30, 0.5f);

  std::vector<training::parameter<float>> parameters() { return {{matrix, "matrix", {20, 30}}, {offsets, "offsets"}}; }
  friend bool operator==(hooked_weights const&, hooked_weights const&) = default;
};

// The state of a hook as arrays, which have their sizes before the first step; and back.
template <class Hook>
struct saved_hook;
template <class Codec>
struct saved_hook<training::error_feedback<Codec>> {
  explicit saved_hook(training::error_feedback<Codec> const&)
      : residuals{std::vector<float>(600), std::vector<float>(30)} {}

  std::vector<std::vector<float>> residuals;

  void take(training::error_feedback<Codec> const& hook) { residuals = hook.residuals(); }
  void give(training::error_feedback<Codec>& hook) const { hook.restore_residuals(residuals); }
  void list(std::vector<training::saved_array>& arrays) {
    for (auto& one : residuals) arrays.push_back(training::per_rank("residual " + std::to_string(arrays.size()), one));
  }
};
template <>
struct saved_hook<training::power_sgd> {
  explicit saved_hook(training::power_sgd const&) {
    state[0] = {std::vector<float>(600), std::vector<float>(60)};  // offsets are not compressed
  }

  std::vector<training::power_sgd::matrix_state> state = std::vector<training::power_sgd::matrix_state>(2);

  void take(training::power_sgd const& hook) { state = hook.state(); }
  void give(training::power_sgd& hook) const { hook.restore(state); }
  void list(std::vector<training::saved_array>& arrays) {
    for (auto& one : state) {
      arrays.push_back(training::per_rank("residual " + std::to_string(arrays.size()), one.residual));
      arrays.push_back(training::replicated("q " + std::to_string(arrays.size()), one.q));
    }
  }
};
template <class Hook>
saved_hook(Hook const&) -> saved_hook<Hook>;

// Steps `first` to `last`.
template <class Model, class Comm>
void train_hooked(Model& model, Comm& comm, hooked_weights& weights, std::uint64_t first, std::uint64_t last) {
  auto const parameters = weights.parameters();
  for (std::uint64_t step = first; step <= last; ++step) {
    for (std::size_t i = 2; i-- > 0;) {
      for (std::size_t k = 0; k < parameters[i].values.size(); ++k)
        model.gradient(i)[k] =
            parameters[i].values[k] -
            static_cast<float>((k * k + 7 * static_cast<std::size_t>(comm.rank()) + step * 5) % 23) / 9;
      model.ready(i);
    }
    model.finish();
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < parameters[i].values.size(); ++k)
        parameters[i].values[k] -= 0.1f * model.gradient(i)[k];
  }
}

template <class Comm, class Hook>
void check_saved_hook(Comm& comm, std::string const& folder, Hook const& hook) {
  training::data_parallel_options const options{.buckets = {.bytes = 1, .first_bytes = 1}, .rebuild = false};
  hooked_weights whole, halves;
  {
    training::data_parallel model(comm, whole.parameters(), options, hook);
    train_hooked(model, comm, whole, 1, 8);
  }
  training::checkpoints saved(folder);
  auto const arrays_of = [&](auto& state, hooked_weights& weights) {
    std::vector arrays{training::replicated("matrix", weights.matrix),
                       training::replicated("offsets", weights.offsets)};
    state.list(arrays);
    return arrays;
  };
  {
    training::data_parallel model(comm, halves.parameters(), options, hook);
    train_hooked(model, comm, halves, 1, 4);
    saved_hook state(hook);
    state.take(model.hook());
    saved.save(comm, 4, arrays_of(state, halves));
  }
  hooked_weights rest;
  saved_hook state(hook);
  training::resumed const seen = saved.load(comm, arrays_of(state, rest));
  expect(seen.step == 4 && seen.per_rank && rest == halves, "the checkpoint was not restored");
  training::data_parallel model(comm, rest.parameters(), options, hook);
  state.give(model.hook());
  train_hooked(model, comm, rest, 5, 8);
  expect(rest == whole, "the run that continues has other bits");
}

}  // namespace

TEST_CASE("the state of every hook goes through a checkpoint") {
  for (int const ranks : ranks_to_test({2, 3, 8})) {
    CAPTURE(ranks);
    temporary_folder const at;
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) {
      using namespace tutti::training;
      check_saved_hook(comm, at.path() / "top_k", error_feedback(top_k{.share = 0.1}));
      check_saved_hook(comm, at.path() / "eight", error_feedback(eight_bit_blocks{}));
      check_saved_hook(comm, at.path() / "signs", error_feedback(one_bit_signs{}));
      check_saved_hook(comm, at.path() / "power_sgd", power_sgd({.rank = 2}));
    }));
  }
}
