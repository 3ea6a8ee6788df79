// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code about pipelines of docs/training.md.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/training.hpp>
#include <tutti/training/schedule/draw.hpp>
#include <tutti/training/schedule/verify.hpp>
#include <tutti/tutti.hpp>

namespace {

using activation = std::vector<double>;

constexpr std::size_t width = 5;

// A stage that adds a weight to each element.
struct shifts {
  std::vector<double> weights = std::vector<double>(width, 0.5), gradients = std::vector<double>(width);

  activation forward(auto const& in) const {
    activation out(in.begin(), in.end());
    for (std::size_t i = 0; i < width; ++i) out[i] += weights[i];
    return out;
  }
  activation backward(auto const& out_gradient) {
    for (std::size_t i = 0; i < width; ++i) gradients[i] += out_gradient[i];
    return {out_gradient.begin(), out_gradient.end()};
  }
};

activation rows_of(int microbatch) { return activation(width, microbatch); }
double loss_of(activation const& y) {
  double sum = 0;
  for (double const v : y) sum += v * v / 2;
  return sum;
}

// Runs the forward passes of pairs of microbatches, then their backward passes.
struct in_pairs : tutti::training::pipeline_schedule_defaults {
  static constexpr std::string_view name = "in_pairs";

  constexpr tutti::training::pipeline_action at(tutti::training::pipeline_shape s, int rank, int i) const {
    using enum tutti::training::pipeline_pass;
    int const first = i / 4 * 2, pair = std::min(2, s.microbatches - first), turn = i % 4;
    return {turn < pair ? forward : backward, rank, first + turn % pair};
  }
  constexpr int live(tutti::training::pipeline_shape s, int) const { return std::min(2, s.microbatches); }
};

}  // namespace

TEST_CASE("the guide to pipelines") {
  tutti::run_threads(4, [](auto& comm) {
    {
      shifts layer;
      tutti::training::pipeline line(comm, tutti::training::one_forward_one_backward{},
                                     tutti::training::activations<double>{{width}}, {.microbatches = 8});

      double const loss = line.run(
          [&](tutti::training::stage_forward<double>& pass) {
            activation y = pass.stage == 0 ? layer.forward(rows_of(pass.microbatch)) : layer.forward(pass.in);
            if (pass.stage == line.stages() - 1) pass.loss = loss_of(y);
            else std::ranges::copy(y, pass.out.begin());
            return y;  // kept for the backward pass of this microbatch
          },
          [&](tutti::training::stage_backward<double> const& pass, activation y) {
            bool const last = pass.stage == line.stages() - 1;
            activation const gradient = last ? layer.backward(y) : layer.backward(pass.out_gradient);
            if (pass.stage > 0) std::ranges::copy(gradient, pass.in_gradient.begin());
          });

      comm.main_only([&] { std::printf("loss %g, bubble %.2f\n", loss, line.statistics().bubble()); });
      double expected = 0;
      for (int m = 0; m < 8; ++m) expected += loss_of(activation(width, m + 2.0));
      if (loss != expected || layer.gradients[4] != 44) throw std::runtime_error("the pipeline is wrong");
    }
    {
      shifts layer;
      auto const forward = [&](tutti::training::stage_forward<double>& pass) {
        activation const y = pass.stage == 0 ? layer.forward(rows_of(pass.microbatch)) : layer.forward(pass.in);
        if (!pass.out.empty()) std::ranges::copy(y, pass.out.begin());
      };
      auto const add_gradients = [&](tutti::training::stage_backward<double> const& pass) {
        activation const gradient =
            pass.out_gradient.empty() ? layer.backward(pass.in) : layer.backward(pass.out_gradient);
        if (pass.stage > 0) std::ranges::copy(gradient, pass.in_gradient.begin());
      };

      tutti::mesh mesh(comm, {{"data", 2}, {"pipeline", 2}});
      tutti::training::pipeline line(mesh.along("pipeline"), tutti::training::gpipe{},
                                     tutti::training::activations<double>{{width}}, {.microbatches = 4});
      tutti::training::data_parallel model(mesh.along("data"), std::vector{std::span(layer.weights)});

      line.run(forward, [&](tutti::training::stage_backward<double> const& pass) {
        add_gradients(pass);
        if (!pass.last) return;
        std::ranges::copy(layer.gradients, model.gradient(0).begin());
        model.ready(0);  // reduced while other stages still compute
      });
      model.finish();
      if (model.gradient(0)[0] != 0.5 * 4 + 6) throw std::runtime_error("the mean is wrong");
    }
  });

  std::ostringstream out;
  tutti::analyze::verdict const found = tutti::training::verify_pipeline(in_pairs{}, {.ranks = 4, .microbatches = 7});
  if (!found) std::puts(found.why.c_str());  // rank, step, stage and microbatch
  tutti::training::draw_pipeline_text(out, in_pairs{}, {.ranks = 4, .microbatches = 8});
  CHECK(found.ok);
  CHECK(out.str().starts_with("time    0"));
  std::ostringstream picture;
  tutti::training::draw_pipeline_text(picture, tutti::training::one_forward_one_backward{},
                                      {.ranks = 4, .microbatches = 4});
  CHECK(picture.str() == R"(time    0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20
rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 -- .  B1 -- .  B2 -- .  B3 --
rank 1  .  F0 F1 F2 .  .  .  .  B0 -- F3 B1 -- .  B2 -- .  B3 --
rank 2  .  .  F0 F1 .  .  B0 -- F2 B1 -- F3 B2 -- .  B3 --
rank 3  .  .  .  F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 --
)");
}
