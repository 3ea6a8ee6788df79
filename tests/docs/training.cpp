// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/training.md.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

namespace {

using batch = std::vector<float>;

void backward(std::size_t layer, batch const& some, std::span<float> gradient) {
  std::ranges::fill(gradient, some[layer % some.size()]);
}
void add_gradient(std::size_t layer, batch const& some, std::span<float> gradient) {
  for (float& g : gradient) g += some[layer % some.size()];
}
void step(std::span<float> weights, std::span<float const> gradient) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5f * gradient[i];
}

// Sends the sums of gradients, which the optimiser divides itself.
struct sum_of_gradients {
  template <class Transport>
  tutti::work operator()(tutti::training::bucket<float> const& some, tutti::communicator<Transport>& comm) const {
    return tutti::all_reduce(tutti::async(comm), some.gradients, tutti::sum{});
  }
};

}  // namespace

TEST_CASE("the guide to training") {
  tutti::run_threads(2, [](auto& comm) {
    auto const mine = static_cast<float>(comm.rank());
    std::vector<batch> const batches(3, batch{mine, 2 * mine});
    std::vector<float> weights(1000, mine), offsets(10);
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      tutti::training::data_parallel model(comm, parameters);  // all ranks get the parameters of rank 0

      for (batch const& some : batches) {
        for (std::size_t layer = parameters.size(); layer-- > 0;) {
          backward(layer, some, model.gradient(layer));  // writes the gradient
          model.ready(layer);                            // its bucket may be on its way now
        }
        model.finish();  // all gradients are means over the ranks
        for (std::size_t layer = 0; layer < parameters.size(); ++layer) step(parameters[layer], model.gradient(layer));
      }

      tutti::training::training_statistics const& seen = model.statistics();
      comm.main_only([&] {
        std::printf("%zu steps, %zu bytes, %.0f %% of the communication hidden\n", seen.steps, seen.bytes,
                    100 * seen.overlap());
      });
      if (weights[0] != -0.75f || offsets[9] != -1.5f) throw std::runtime_error("the weights are wrong");
    }
    {
      std::vector<tutti::training::parameter<float>> const parameters{{weights, "weights", {10, 100}},
                                                                      {offsets, "offsets"}};
      tutti::training::data_parallel model(comm, parameters, {.find_unused = true});

      model.zero();
      {
        auto const local = model.accumulate();  // while it exists, nothing is sent
        for (batch const& some : std::span(batches).first(2)) {
          add_gradient(0, some, model.gradient(0));
          model.ready(0);
        }
      }
      add_gradient(0, batches.back(), model.gradient(0));
      model.ready(0);
      model.finish();
      for (std::size_t i = 0; i < model.size(); ++i)
        if (model.used(i)) step(parameters[i].values, model.gradient(i));
      if (weights[0] != -1.5f || offsets[9] != -1.5f) throw std::runtime_error("the weights are wrong");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      tutti::training::data_parallel model(comm, parameters, {}, tutti::training::cast_to<tutti::bfloat16>{});
      tutti::training::data_parallel other(comm, parameters, {.concurrent = 2}, sum_of_gradients{});
      for (std::size_t i = 0; i < 2; ++i) {
        std::ranges::fill(model.gradient(i), mine);
        model.ready(i);
      }
      model.finish();
      for (std::size_t i = 0; i < 2; ++i) {
        std::ranges::fill(other.gradient(i), mine);
        other.ready(i);
      }
      other.finish();
      if (model.gradient(0)[0] != 0.5f || other.gradient(1)[0] != 1) throw std::runtime_error("a hook is wrong");

      {
        using namespace tutti::training;
        data_parallel compressed(comm, parameters, {.rebuild = false}, error_feedback(top_k{.share = 0.01}));
        for (std::size_t i = 0; i < 2; ++i) {
          std::ranges::fill(compressed.gradient(i), mine);
          compressed.ready(i);
        }
        compressed.finish();
        auto const saved = compressed.hook().residuals();
        if (saved.size() != compressed.plan().buckets.size()) throw std::runtime_error("a residual for each bucket");
        compressed.hook().restore_residuals(saved);
      }

      std::vector<double> running_mean(10, mine);
      tutti::training::broadcast_parameters(comm, std::vector<std::span<double>>{running_mean});
      if (running_mean[9] != 0) throw std::runtime_error("the state is wrong");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      auto another = comm.split(0).value();
      std::optional<decltype(tutti::training::data_parallel(comm, parameters))> model(std::in_place, comm, parameters);
      tutti::barrier(another);  // no rank shrinks while others still make the model
      auto survivors = comm.shrink();
      model.reset();
      comm = std::move(survivors);
      model.emplace(comm, parameters);
      if (comm.size() != 2) throw std::runtime_error("nobody was lost");
    }
  });
}
