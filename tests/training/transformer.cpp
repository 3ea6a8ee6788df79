// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transformer of examples/train_transformer: its gradients, and the same training by any mesh of ranks. Not under
// sanitizers: Eigen computes addresses in empty matrices, of microbatches without images, which they report.
// labels: threads alone wide
#include "../../examples/train_transformer/trainer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "support/expect.hpp"

using namespace tutti::testing;

namespace {

// Two ranks divide its heads, units and classes unevenly, and the last of four has no head.
architecture const tiny{
    .side = 4, .patch = 2, .features = 6, .heads = 3, .hidden = 5, .depth = 2, .classes = 3, .seed = 5};

struct examples {
  Eigen::MatrixXd images;
  std::vector<int> labels;
};
examples some_images(int count) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  examples out{Eigen::MatrixXd(16, count), {}};
  for (double& x : out.images.reshaped()) x = normal(random);
  for (int i = 0; i < count; ++i) out.labels.push_back(static_cast<int>(random() % 3));
  return out;
}

// The losses of all steps, over all images.
template <class Comm>
std::vector<double> losses_of(Comm& comm, division const& by) {
  trainer<double, typename Comm::transport_type> some(comm, tiny, by, 7, 0.01);
  auto const all = some_images(7);
  std::vector<double> out;
  for (int step = 0; step < 3; ++step) out.push_back(some.learn(all.images, all.labels));
  tutti::all_reduce(some.mesh().along("data"), out);
  out.push_back(some.evaluate(all.images, all.labels).loss);

  // Ranks that have the same parameter have the same bits.
  some.for_each_parameter([&](parameter<double> const& p) {
    std::vector<double> of_rank_0(p.values.begin(), p.values.end());
    if (p.is_divided) tutti::broadcast(some.mesh().along("data"), of_rank_0);
    else tutti::broadcast(some.mesh().along({"data", "tensor"}), of_rank_0);
    expect(std::ranges::equal(p.values, of_rank_0), "ranks differ in " + p.name);
  });
  return out;
}

}  // namespace

TEST_CASE("the gradients of the transformer are those that differences give") {
  tutti::run_threads(1, [](auto& comm) {
    using transport = typename std::remove_cvref_t<decltype(comm)>::transport_type;
    stopwatch communication;
    tensor_group<transport> const group{comm, false, tiny.tokens(), communication};
    stage<double, transport> model(tiny, 1, 0, group);
    auto const all = some_images(3);
    tutti::training::sharded_cross_entropy const entropy{tiny.classes};
    auto const here = [](auto&) { return 0; };
    std::vector<double> losses(3);
    std::vector<double> const ones(3, 1.0);
    auto const loss = [&] {
      auto logits = model.forward(patches_of<double>(tiny, all.images), 0, here);
      entropy.forward(comm, elements(logits), all.labels, losses);
      return std::pair(losses[0] + losses[1] + losses[2], logits);
    };
    std::vector<parameter<double>*> parameters;
    for (auto const& b : model.blocks())
      for (auto& p : b->all_parameters()) parameters.push_back(&p);
    std::vector<std::vector<double>> gradients;
    for (auto* p : parameters) p->gradient = gradients.emplace_back(p->values.size());
    auto probabilities = loss().second;
    entropy.backward(comm, elements(probabilities), all.labels, ones);
    model.backward(probabilities, 0, true, here, [](auto&) {});

    std::mt19937 random(2);
    for (auto* p : parameters)
      for (int i = 0; i < 3; ++i) {
        double& x = p->drawn[random() % p->drawn.size()];
        double const before = x, step = 1e-5;
        x = before + step;
        double const up = loss().first;
        x = before - step;
        double const difference = (up - loss().first) / (2 * step);
        x = before;
        double const gradient = p->gradient[static_cast<std::size_t>(&x - p->drawn.data())];
        // The error of central differences: step^2 times a third derivative, and rounding of 1e-16 / step.
        CHECK_MESSAGE(std::abs(gradient - difference) <= 1e-8 * (1 + std::abs(gradient)), p->name);
      }
  });
}

TEST_CASE("a transformer that ranks divide has the losses of one process") {
  std::vector<double> alone;
  tutti::run_threads(1, [&](auto& comm) { alone = losses_of(comm, {}); });
  CHECK(alone[3] < alone[0]);
  for (auto const& by :
       {division{.microbatches = 3}, division{.data = 3, .microbatches = 4}, division{.tensor = 2},
        division{.tensor = 2, .sequence = true}, division{.data = 3, .tensor = 2},
        division{.tensor = 4, .sequence = true}, division{.data = 2, .tensor = 4},
        division{.pipeline = 2, .microbatches = 3, .schedule = "gpipe"},
        division{.pipeline = 2, .microbatches = 4, .schedule = "interleaved"},
        division{.data = 2, .tensor = 2, .pipeline = 2, .sequence = true, .microbatches = 3},
        division{.stage = 3, .microbatches = 2}, division{.data = 2, .tensor = 2, .sequence = true, .stage = 1},
        division{.data = 2, .pipeline = 2, .stage = 2, .microbatches = 4, .schedule = "interleaved"},
        division{.data = 2, .tensor = 2, .pipeline = 2, .stage = 3, .microbatches = 2, .schedule = "gpipe"}}) {
    std::string const what = "data " + std::to_string(by.data) + ", tensor " + std::to_string(by.tensor) +
                             (by.sequence ? ", sequence" : "") + ", stage " + std::to_string(by.stage) + ", pipeline " +
                             std::to_string(by.pipeline) + " by " + by.schedule;
    CAPTURE(what);
    CHECK_NOTHROW(tutti::run_threads(by.ranks(), [&](auto& comm) {
      auto const losses = losses_of(comm, by);
      // Sums are added up in another order, and Adam divides small gradients by their size.
      for (std::size_t i = 0; i < losses.size(); ++i)
        expect(std::abs(losses[i] - alone[i]) <= 1e-9 * alone[i], "the loss of step " + std::to_string(i));
    }));
  }
}
