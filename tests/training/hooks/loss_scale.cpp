// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hook has not sent yet follows the factor of the loss. Factors are powers of two, so training with them has the bits of training
// without.
// labels: threads
#include "tutti/training/loss_scale.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/training/elastic/elastic_feedback.hpp"
#include "tutti/training/elastic/elastic_power_sgd.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using training::loss_scale;

namespace {

constexpr std::size_t scaled_rows = 12, scaled_columns = 30, scaled_elements = scaled_rows * scaled_columns;
constexpr int scaled_steps = 8;

float gradient_to_scale(int rank, int step, std::size_t k) {
  return static_cast<float>((static_cast<std::size_t>(step + rank) * 7919 + k * 17) % 101) / 7 - 5;
}
// The factor changes after every second step: it grows, or becomes smaller as after an overflow.
std::vector<loss_scale> changing_scales() {
  return {{.factor = 8, .growth = 2, .growth_after = 2}, {.factor = 1024, .growth_after = 0}};
}
template <class Hook>
float next_scale(loss_scale& scale, Hook& hook, double norm, int step) {
  double const by = scale.update(hook, norm);
  if (scale.growth_after == 0 && scale.factor > 1 && step % 2 == 1)
    static_cast<void>(scale.update(hook, std::numeric_limits<double>::infinity()));
  return static_cast<float>(by);
}

// The gradients of all steps, without the factor.
template <class Hook, class Comm>
std::vector<float> scaled_means(Comm& comm, Hook hook, loss_scale scale) {
  std::vector<float> matrix(scaled_elements), out;
  std::vector<training::parameter<float>> const parameters{{matrix, "matrix", {scaled_rows, scaled_columns}}};
  training::data_parallel model(comm, parameters, {}, hook);
  for (int step = 0; step < scaled_steps; ++step) {
    for (std::size_t k = 0; k < scaled_elements; ++k)
      model.gradient(0)[k] = static_cast<float>(scale.factor) * gradient_to_scale(comm.rank(), step, k);
    model.ready(0);
    model.finish();
    float const by = next_scale(scale, model.hook(), training::gradient_norm(model), step);
    for (float const x : model.gradient(0)) out.push_back(by * x);
  }
  return out;
}
template <class Hook, class Comm>
void check_scaled_hook(Comm& comm, Hook const& hook) {
  auto const unscaled = scaled_means(comm, hook, {.factor = 1, .growth_after = 0});
  for (loss_scale const& scale : changing_scales())
    expect(scaled_means(comm, hook, scale) == unscaled, "residuals have kept an old factor");
}

template <class Elastic, class Comm>
std::vector<float> scaled_elastic_means(Comm& comm, Elastic compressed, loss_scale scale) {
  std::vector<float> mean(scaled_elements), out;
  static_cast<void>(compressed.residuals(comm));
  for (int step = 0; step < scaled_steps; ++step) {
    compressed.mean(comm, mean, [&](std::size_t shard, std::span<float> gradient) {
      for (std::size_t k = 0; k < gradient.size(); ++k)
        gradient[k] = static_cast<float>(scale.factor) * gradient_to_scale(static_cast<int>(shard), step, k);
    });
    float const by = next_scale(scale, compressed, 1, step);
    for (float const x : mean) out.push_back(by * x);
  }
  return out;
}
template <class Elastic, class Comm>
void check_scaled_elastic(Comm& comm, Elastic const& compressed) {
  auto const unscaled = scaled_elastic_means(comm, compressed, {.factor = 1, .growth_after = 0});
  for (loss_scale const& scale : changing_scales())
    expect(scaled_elastic_means(comm, compressed, scale) == unscaled, "residuals have kept an old factor");
}

}  // namespace

TEST_CASE("residuals follow the factor of the loss") {
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) {
      check_scaled_hook(comm, training::error_feedback(training::top_k{.share = 0.05}));
      check_scaled_hook(comm, training::error_feedback(training::eight_bit_blocks{}));
      check_scaled_hook(comm, training::error_feedback(training::one_bit_signs{}));
      check_scaled_hook(comm, training::power_sgd({.rank = 2}));
      check_scaled_elastic(comm, training::elastic_feedback(3, scaled_elements, training::top_k{.share = 0.05}));
      check_scaled_elastic(comm, training::elastic_power_sgd(3, {{scaled_rows, scaled_columns}}, {.rank = 2}));
    }));
  }
}

TEST_CASE("a factor that would grow where gradients overflow is refused") {
  for (double const backoff : {2.0, 1.0, 0.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    loss_scale scale{.backoff = backoff};
    CHECK_NOTHROW(expect_error(error_of([&] { return scale.update(1); }), error_code::bad_argument, "backoff is "));
  }
}

TEST_CASE("a residual that overflows in its new scale becomes zero") {
  training::error_feedback hook(training::top_k{.share = 0.1});
  hook.restore_residuals({{1, std::numeric_limits<float>::max()}});
  hook.rescale(4);
  CHECK(hook.residuals() == std::vector<std::vector<float>>{{4, 0}});
}
