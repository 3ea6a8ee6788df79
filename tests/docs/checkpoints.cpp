// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code on checkpoints in docs/training.md.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"

using tutti::testing::expect;

TEST_CASE("the guide to checkpoints") {
  tutti::testing::temporary_folder const at;
  std::string const folder = at.path() / "run";
  for (int const ranks : {2, 3})
    tutti::run_threads(ranks, [&](auto& comm) {
      std::vector<float> weights(10), residual(3);
      std::vector<float> part_of_momentum(tutti::part(10, comm.size(), comm.rank()).count);
      std::mt19937 random(1);
      int steps = 0;
      auto const train_step = [&](auto&, std::uint64_t) {
        weights[0] += 1;
        ++steps;
      };

      using namespace tutti::training;
      checkpoints saved(folder, {.keep = 3});
      std::vector const state{replicated("weights", weights), replicated("random", random),
                              divided("momentum", part_of_momentum), per_rank("residual", residual)};
      std::uint64_t first = saved.load(comm, state).step;  // 0 if there is no checkpoint yet
      for (std::uint64_t number = first + 1; number <= 4; ++number) {
        train_step(comm, number);
        if (number % 2 == 0) saved.save(comm, number, state);
      }

      expect(steps == (ranks == 2 ? 4 : 0) && weights[0] == 4, "the run was not resumed where it ended");
    });
}

TEST_CASE("the guide to checkpoints of an optimiser") {
  tutti::testing::temporary_folder const at;
  tutti::run_threads(2, [&](auto& comm) {
    using namespace tutti::training;
    std::vector<float> weights(10, 1), gradient(10, 1);
    checkpoints saved(at.path() / "run");
    auto const list = [&](optimizer<float, adam>& descent) {
      std::vector state{replicated("weights", weights), replicated("steps", descent.steps())};
      for (auto const& array : descent.state()) state.push_back(replicated(array.name, array.values));
      return state;
    };
    std::vector<std::span<float>> const parameters{weights};
    optimizer<float, adam> first(parameters), second(parameters);
    auto const step = [&](optimizer<float, adam>& descent) {
      descent.begin_step();
      descent.update(0, gradient);
    };
    step(first);
    saved.save(comm, 1, list(first));
    std::vector<float> const kept = weights;
    weights.assign(10, 0);
    saved.load(comm, list(second));
    step(first);
    std::vector<float> const expected = weights;
    weights = kept;
    step(second);
    expect(second.steps() == 2 && weights == expected, "the optimiser was not resumed where it ended");
  });
}

TEST_CASE("the guide to checkpoints of shards") {
  tutti::testing::temporary_folder const at;
  std::vector<float> last;  // of the run before
  for (int const ranks : {2, 3, 4})
    tutti::run_threads(ranks, [&](auto& comm) {
      using namespace tutti::training;
      std::vector<std::vector<float>> parameters{std::vector<float>(5), std::vector<float>(1), std::vector<float>(30)};
      sharded_data_parallel model(comm, parameters, adam{.rate = 0.1}, {.stage = ranks - 1});
      checkpoints saved(at.path() / "run");

      std::vector<std::span<float>> mine(3 * model.size());
      for (auto const& part : model.shard()) {
        mine[3 * part.parameter] = part.values;
        std::ranges::copy(part.state, &mine[3 * part.parameter + 1]);
      }
      std::vector state{replicated("steps", model.optimizer().steps())};
      for (std::size_t i = 0; i < mine.size(); ++i) state.push_back(divided("array " + std::to_string(i), mine[i]));

      if (saved.load(comm, state).step > 0) model.share();  // all ranks get the parameters that others have loaded

      auto const values = [&] {
        std::vector<float> out;
        for (std::size_t i = 0; i < model.size(); ++i) {
          auto const here = model.gather(i);
          out.insert(out.end(), model.parameter(i).begin(), model.parameter(i).end());
        }
        return out;
      };
      expect(ranks == 2 || values() == last, "another number of ranks has other parameters");
      tutti::barrier(comm);
      for (std::size_t i = model.size(); i-- > 0;) {
        for (std::size_t k = 0; k < model.gradient(i).size(); ++k) model.gradient(i)[k] = static_cast<float>(k) - 7;
        model.ready(i);
      }
      model.step();
      expect(model.optimizer().steps() == static_cast<std::uint64_t>(ranks) - 1, "the steps were not loaded");
      saved.save(comm, static_cast<std::uint64_t>(ranks), state);
      auto const now = values();
      if (comm.rank() == 0) last = now;
    });
}
