// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/training.md.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
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
float forward(batch const& some, std::span<float const> weights) { return some.front() * weights.front(); }
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
      tutti::training::optimizer descent(parameters, tutti::training::sgd{.rate = 0.5});

      for (batch const& some : batches) {
        for (std::size_t layer = parameters.size(); layer-- > 0;) {
          backward(layer, some, model.gradient(layer));  // writes the gradient
          model.ready(layer);                            // its bucket may be on its way now
        }
        model.finish();  // all gradients are means over the ranks
        descent.step(model);
      }

      tutti::training::training_statistics const& seen = model.statistics();
      comm.main_only([&] {
        std::printf("%zu steps, %zu bytes, %.0f %% of the communication hidden\n", seen.steps, seen.bytes,
                    100 * seen.overlap());
      });
      if (weights[0] != -0.75f || offsets[9] != -1.5f) throw std::runtime_error("the weights are wrong");
    }
    {
      std::vector<float> first(1000), second(10);
      std::vector<std::span<float>> const parameters{first, second};
      tutti::training::data_parallel model(comm, parameters, {.buckets = {.bytes = 4 << 20}, .by_priority = true});

      for (std::size_t b = 0; b < batches.size(); ++b) {
        for (std::size_t layer = parameters.size(); layer-- > 0;) {
          backward(layer, batches[b], model.gradient(layer));
          model.ready(layer);
        }
        for (std::size_t layer = 0; layer < parameters.size(); ++layer) {
          model.wait(layer);  // its gradient is the mean; those of later layers may still be on their way
          step(parameters[layer], model.gradient(layer));
          if (b + 1 < batches.size()) forward(batches[b + 1], parameters[layer]);
        }
        model.finish();  // ends the step
      }
      if (first[0] != -0.75f || second[9] != -1.5f) throw std::runtime_error("the weights are wrong");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      tutti::training::data_parallel model(comm, parameters, {.adapt = tutti::training::adaptive_buckets{}});
      for (std::size_t layer = 0; layer < 2; ++layer) model.ready(layer);
      model.finish();
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
        data_parallel compressed(comm, parameters, {}, error_feedback(top_k{.share = 0.01}));
        for (std::size_t i = 0; i < 2; ++i) {
          std::ranges::fill(compressed.gradient(i), mine);
          compressed.ready(i);
        }
        compressed.finish();
        auto const saved = compressed.hook().residuals();
        if (saved.size() != parameters.size()) throw std::runtime_error("a residual for each parameter");
        compressed.hook().restore_residuals(saved);
        optimizer descent(parameters, sgd{});
        loss_scale scale{.growth_after = 1};
        descent.step(compressed, scale.update(compressed.hook(), gradient_norm(compressed)));
        if (compressed.hook().residuals()[0][999] != 2 * saved[0][999]) throw std::runtime_error("an old factor");

        std::vector<parameter<float>> const matrices{{weights, "weights", {10, 100}}, {offsets, "offsets"}};
        data_parallel low_rank(comm, matrices, {}, power_sgd({.rank = 2}));
        for (std::size_t i = 0; i < 2; ++i) {
          std::ranges::fill(low_rank.gradient(i), mine);
          low_rank.ready(i);
        }
        low_rank.finish();
        if (std::abs(low_rank.gradient(0)[99] - 0.5f) > 1e-4f) throw std::runtime_error("a product is wrong");
        low_rank.hook().restore(low_rank.hook().state());
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
      model.reset();
      comm = comm.shrink();
      model.emplace(comm, parameters);
      if (comm.size() != 2) throw std::runtime_error("nobody was lost");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      tutti::training::data_parallel model(comm, parameters);
      for (std::size_t i = 0; i < 2; ++i) model.ready(i);
      tutti::training::optimizer descent(parameters, tutti::training::adam{.rate = 1e-3, .weight_decay = 0.01});
      model.finish();
      descent.step(model);  // skips parameters that no rank has used
      descent.step(model,
                   std::min(1.0, 5.0 / (tutti::training::gradient_norm(model) + 1e-6)));  // their norm is 5 at most

      auto const backward = [&](double loss_factor) {
        for (std::size_t i = 2; i-- > 0;) {
          std::ranges::fill(model.gradient(i), static_cast<float>(loss_factor));
          model.ready(i);
        }
      };
      tutti::training::loss_scale scale;
      backward(scale.factor);  // the gradients of scale.factor times the loss
      model.finish();
      descent.step(model, scale.update(tutti::training::gradient_norm(model)));

      std::vector<bool> const divided{true, false};
      tutti::mesh mesh(comm, {{"data", 1}, {"tensor", 2}});
      double const norm = tutti::training::gradient_norm(model, mesh.along("tensor"), [&](std::size_t i) {
        return divided[i] || mesh.coordinate("tensor") == 0;  // of the others, only one rank counts the gradient
      });
      if (std::abs(norm - 65536 * std::sqrt(2 * 1000 + 10)) > 1) throw std::runtime_error("the norm is wrong");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      std::vector<batch> const own(comm.rank() == 0 ? 3 : 1, batch{1, 1});
      using namespace tutti::training;
      data_parallel model(comm, parameters, {.find_unused = true});
      std::size_t const steps = tutti::all_reduce(comm, own.size(), tutti::max{});
      for (std::size_t s = 0; s < steps; ++s) {
        for (std::size_t layer = parameters.size(); s < own.size() && layer-- > 0;) {
          backward(layer, own[s], model.gradient(layer));
          model.ready(layer);
        }
        model.finish();  // a rank that has no batch left contributes zeros
        if (model.gradient(0)[0] != (s == 0 ? 1.0f : 0.5f)) throw std::runtime_error("the mean is wrong");
      }
      std::size_t const examples = 5, batch_size = 2;
      std::size_t learned = 0;
      auto const learn = [&](std::span<std::size_t const> some) { learned += some.size(); };
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        auto const order = epoch_order(examples, 1, epoch);  // the same on all ranks
        for (std::size_t at = 0; at < examples; at += batch_size) {
          auto const share = tutti::part(std::min(batch_size, examples - at), comm.size(), comm.rank());
          learn(std::span(order).subspan(at + share.begin, share.count));
        }
      }
      if (tutti::all_reduce(comm, learned) != 10) throw std::runtime_error("not all examples were learned once");
    }
    {
      std::vector<std::span<float>> const parameters{weights, offsets};
      using namespace tutti::training;
      sharded_data_parallel model(comm, parameters, adam{.rate = 1e-3}, {.stage = 3, .units = {1, 1}});

      for (batch const& some : batches) {
        for (std::size_t layer = 0; layer < model.units(); ++layer) {
          auto const here = model.gather(layer);  // the layer's parameters are here while this object exists
          forward(some, model.parameter(layer));
        }
        for (std::size_t layer = model.units(); layer-- > 0;) {
          auto const here = model.gather(layer);
          backward(layer, some, model.gradient(layer));  // ask for it in every pass
          model.ready(layer);                            // its bucket may be on its way now
        }
        model.step();  // each rank changes what it owns
      }

      for (std::size_t i = 0; i < 2; ++i) {
        std::ranges::fill(model.gradient(i), 10.0f);
        model.ready(i);
      }
      model.finish();
      model.step(std::min(1.0, 5.0 / (model.gradient_norm() + 1e-6)));  // the gradients' norm is 5 at most
    }
    {
      using namespace tutti::training;
      auto const draw = [](std::size_t parameter, std::span<float> values) {
        std::ranges::fill(values, static_cast<float>(parameter) + 1);
      };
      deferred_model<float> const deferred{
          .parameters = {{{10, 100}, "weights"}, {{10}, "offsets"}},
          .fill = [&](std::size_t parameter, std::span<float> values) { draw(parameter, values); }};
      sharded_data_parallel model(comm, deferred, adam{.rate = 1e-3}, {.stage = 3});
      auto const here = model.gather(1);
      if (model.parameter(1).size() != 10 || model.parameter(1)[9] != 2) throw std::runtime_error("other values");
    }
    {
      using namespace tutti::training;
      std::vector<std::vector<tutti::bfloat16>> narrow_parameters{std::vector<tutti::bfloat16>(1000)};
      sharded_data_parallel model(comm, narrow_parameters, adam{.rate = 1e-3}, {.stage = 3});
      static_assert(std::same_as<decltype(model.shard()[0].values), std::span<float>>);  // masters
    }
  });
}

// The table of the guide.
TEST_CASE("the memory of the guide's stages") {
  tutti::run_threads(4, [](auto& comm) {
    using namespace tutti::training;
    constexpr std::size_t layers = 16, of_layer = 4096, layer = of_layer * sizeof(float);
    std::vector<std::vector<float>> parameters(layers, std::vector<float>(of_layer));
    std::size_t const expected[3][4]{{16, 0, 16, 8}, {16, 0, 4 + 2, 8}, {4, 2, 4 + 2, 8}};
    for (int const stage : {1, 2, 3}) {
      sharded_data_parallel model(comm, parameters, adam{},
                                  {.stage = stage, .buckets = {.bytes = layer, .first_bytes = layer}});
      for (int step = 0; step < 2; ++step) {
        for (std::size_t u = 0; u < layers; ++u) auto const here = model.gather(u);
        for (std::size_t u = layers; u-- > 0;) {
          auto const here = model.gather(u);
          std::ranges::fill(model.gradient(u), 1.0f);
          if (u + 2 == layers) std::ignore = model.gradient(u - 1);  // the next layer may be computed meanwhile
          model.ready(u);
        }
        model.step();
      }
      memory_use const peak = model.memory().peak;
      std::size_t const seen[]{peak.parameters, peak.gathered, peak.gradients, peak.state};
      for (std::size_t i = 0; i < 4; ++i)
        if (seen[i] != expected[stage - 1][i] * layer) throw std::runtime_error("the table of the guide is wrong");
    }
  });
}

TEST_CASE("the guide to tensor parallelism") {
  tutti::run_threads(3, [](auto& comm) {
    // All elements are equal, so that the products are known: rows x inputs times inputs x units times units x outputs.
    constexpr std::size_t rows = 4, inputs = 2, units = 7, outputs = 2, words = 10;
    auto const multiply = [](std::span<float const> a, std::span<float const> b, std::size_t inner) {
      std::vector<float> out(a.size() / inner * (b.size() / inner));
      for (std::size_t i = 0; i < out.size(); ++i)
        for (std::size_t k = 0; k < inner; ++k)
          out[i] += a[i / (b.size() / inner) * inner + k] * b[k * (b.size() / inner) + i % (b.size() / inner)];
      return out;
    };
    auto const gradient_of_inputs = [&] { return std::vector<float>(rows * inputs, 1); };
    std::vector<float> const x(rows * inputs, 1), whole(inputs * units, 1);

    using namespace tutti::training;
    tutti::mesh mesh(comm, {{"data", 1}, {"tensor", 3}});
    auto& group = mesh.along("tensor");

    auto const by_columns = sharded_dimension::columns(inputs, units);
    std::vector<float> first(by_columns.size(group.size(), group.rank()));  // 3, 2 and 2 of 7 columns
    by_columns.copy_part(std::span(whole), std::span(first), group.size(), group.rank());
    std::size_t const own = tutti::part(units, group.size(), group.rank()).count;
    std::vector<float> const second(own * outputs, 1);  // its rows: rows(units, outputs)

    copy_to_group{}.forward(group, x);               // nothing: every rank has x
    auto const hidden = multiply(x, first, inputs);  // this rank's columns of the first matrix
    auto y = multiply(hidden, second, own);          // its rows of the second: a part of a sum
    reduce_from_group{}.forward(group, y);           // the sum

    auto gradient = gradient_of_inputs();
    tutti::work whole_gradient = copy_to_group{}.backward(tutti::async(group), gradient);
    // compute the gradients of the weights meanwhile
    whole_gradient.wait();
    if (y[0] != 14 || gradient[0] != 3) throw std::runtime_error("the layers are wrong");

    std::vector<int> const tokens{3, 9, 3}, targets{0, 9, 5};
    std::size_t const own_words = tutti::part(words, group.size(), group.rank()).count;
    std::vector<float> table(own_words * inputs, 1), table_gradient(table.size()), features(tokens.size() * inputs);
    std::vector<float> logits(tokens.size() * own_words), losses(tokens.size());
    std::vector<float> const share(tokens.size(), 1.0f / 3);

    sharded_embedding const embedding{.words = words, .features = inputs};
    sharded_cross_entropy const loss{.classes = words};
    embedding.forward(group, tokens, table, features);            // tokens x features, on every rank
    loss.forward(group, logits, targets, losses);                 // logits, tokens x own words, become probabilities
    loss.backward(group, logits, targets, share);                 // and then gradients
    embedding.backward(group, tokens, features, table_gradient);  // adds to this rank's rows

    if (features[5] != 1 || losses[0] < 2.3f || losses[0] > 2.31f) throw std::runtime_error("the words are wrong");
  });
}
