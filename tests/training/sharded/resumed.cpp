// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A checkpoint of sharded training is loaded by another number of ranks, in another stage and with other buckets, with the same bits.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "training/sharded/sharded.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// What a rank holds of each parameter and of both arrays of Adam's state, as the guide lists it.
template <class Model>
std::vector<training::saved_array> listed_shards(Model& model) {
  std::vector<std::span<float>> mine(3 * model.size());
  for (auto const& part : model.shard()) {
    mine[3 * part.parameter] = part.values;
    std::ranges::copy(part.state, &mine[3 * part.parameter + 1]);
  }
  std::vector out{training::replicated("steps", model.optimizer().steps())};
  for (std::size_t i = 0; i < mine.size(); ++i) out.push_back(training::divided(detail::join({"array ", i}), mine[i]));
  return out;
}

using shard_values = std::vector<std::vector<float>>;

// All parameters and all state, on every rank.
template <class Comm, class Model>
shard_values whole_sharded_state(Comm& comm, layered_model<float> const& some, Model& model) {
  shard_values out = parameters_in(some, model);
  std::size_t const n = model.size();
  for (std::size_t k = 1; k < 3; ++k)
    for (auto const& p : some.parameters) out.emplace_back(p.size());
  for (auto const& part : model.shard())
    for (std::size_t k = 1; k < 3; ++k)
      std::ranges::copy(part.state[k - 1],
                        out[k * n + part.parameter].begin() + static_cast<std::ptrdiff_t>(part.elements.begin));
  for (std::size_t i = n; i < out.size(); ++i) all_reduce(comm, out[i]);  // what others own is zero
  return out;
}

// Trains on so many ranks and saves, or only loads.
shard_values state_of_sharded_job(int ranks, training::sharding_options options, std::string const& folder,
                                  bool trains) {
  shard_values out;
  run_threads(ranks, [&](auto& comm) {
    layered_model<float> some;
    training::sharding_options its = options;
    its.units = some.units;
    if (!trains)
      for (auto& p : some.parameters) std::ranges::fill(p, 0.0f);
    training::sharded_data_parallel model(comm, some.parameters, training::adam{.rate = 0.01}, its);
    training::checkpoints saved(folder);
    if (trains) {
      train_sharded(some, model, comm.rank(), its, {.steps = 3});
      saved.save(comm, 3, listed_shards(model));
    } else {
      expect(saved.load(comm, listed_shards(model)).step == 3, "another step was loaded");
      model.share();
    }
    expect(model.optimizer().steps() == 3, "another number of steps");
    auto const whole = whole_sharded_state(comm, some, model);
    if (comm.rank() == 0) out = whole;
  });
  return out;
}

}  // namespace

TEST_CASE("shards are loaded by another number of ranks in another stage") {
  temporary_folder const at;
  for (int const from : {1, 2, 3})
    for (auto const& ranks : {std::pair{5, 2}, {2, 5}, {1, 4}, {4, 1}}) {
      int const before = ranks.first, after = ranks.second;
      CAPTURE(from);
      CAPTURE(before);
      CAPTURE(after);
      std::string const folder = (at.path() / detail::join({from, "-", before, "-", after})).string();
      auto const saved =
          state_of_sharded_job(before, {.stage = from, .buckets = {.bytes = 700, .first_bytes = 100}}, folder, true);
      for (int const to : {1, 2, 3}) {
        auto const loaded =
            state_of_sharded_job(after, {.stage = to, .buckets = {.bytes = 1500, .first_bytes = 300}}, folder, false);
        CHECK(loaded == saved);
      }
    }
}
