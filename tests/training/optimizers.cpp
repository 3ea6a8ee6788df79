// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimisers follow their published formulae, in parts too, and continue from a saved state with the same bits.
#include "tutti/training/optimizers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::training;

namespace {

// One parameter as PyTorch's documentation describes its steps, in double.
struct documented_adamw {
  double x, m = 0, v = 0;
  int t = 0;
  void step(double g, adam const& by) {
    ++t;
    x -= by.rate * by.weight_decay * x;
    m = by.beta1 * m + (1 - by.beta1) * g;
    v = by.beta2 * v + (1 - by.beta2) * g * g;
    x -= by.rate * (m / (1 - std::pow(by.beta1, t))) / (std::sqrt(v / (1 - std::pow(by.beta2, t))) + by.epsilon);
  }
};
struct documented_sgd {
  double x, b = 0;
  int t = 0;
  void step(double g, momentum const& by) {
    g += by.weight_decay * x;
    b = t++ == 0 ? g : by.factor * b + g;
    x -= by.rate * (by.nesterov ? g + by.factor * b : b);
  }
};

template <class T, class Reference, class Rule, class Given>
void check_formula(Rule const& rule, Given const& given, double bound) {
  std::mt19937 random(3);
  std::normal_distribution<T> normal;
  constexpr std::size_t n = 37;
  std::vector<T> x(n), g(n);
  std::vector<Reference> expected;
  for (T& one : x) expected.push_back({.x = static_cast<double>(one = normal(random))});
  std::vector<std::span<T>> const parts{std::span(x).first(20), std::span(x).subspan(20)};
  optimizer descent(parts, rule);
  for (int step = 0; step < 50; ++step) {
    for (T& one : g) one = normal(random);
    descent.begin_step();
    descent.update(0, std::span<T const>(g).first(20));
    descent.update(1, std::span<T const>(g).subspan(20));
    for (std::size_t i = 0; i < n; ++i) {
      expected[i].step(static_cast<double>(g[i]), given);
      CHECK(std::abs(static_cast<double>(x[i]) - expected[i].x) < bound);
    }
  }
}

// What a data_parallel offers after finish().
struct known_gradients {
  std::vector<std::vector<float>> all;
  std::vector<bool> in_use{true, true};
  std::size_t size() const { return all.size(); }
  std::span<float> gradient(std::size_t i) { return all[i]; }
  bool used(std::size_t i) const { return in_use[i]; }
};

}  // namespace

TEST_CASE("optimisers follow their documented formulae") {
  for (double const decay : {0.0, 0.1}) {
    adam const by{.rate = 0.01, .weight_decay = decay};
    check_formula<double, documented_adamw>(by, by, 1e-12);
    check_formula<float, documented_adamw>(by, by, 1e-5);
    for (bool const nesterov : {false, true}) {
      momentum const with{.rate = 0.05, .factor = 0.8, .weight_decay = decay, .nesterov = nesterov};
      check_formula<double, documented_sgd>(with, with, 1e-12);
      check_formula<float, documented_sgd>(with, with, 1e-4);
    }
    check_formula<double, documented_sgd>(sgd{.rate = 0.05, .weight_decay = decay},
                                          momentum{.rate = 0.05, .factor = 0, .weight_decay = decay}, 1e-12);
  }
}

TEST_CASE("the state of an optimiser is saved and restored with the same bits") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1), std::vector<float>(3, 2)};
  known_gradients some{{std::vector<float>(5, 0.25f), std::vector<float>(3, -1)}};
  optimizer descent(x, adam{});
  descent.step(some);
  auto const saved_x = x;
  std::vector<std::vector<float>> saved;
  for (auto const& array : descent.state()) saved.emplace_back(array.values.begin(), array.values.end());
  CHECK(descent.state().size() == 2);
  CHECK(descent.state()[1].name == "variance");
  CHECK(descent.state_bytes() == 2 * 8 * sizeof(float));
  descent.rule().rate = 0.5;
  descent.step(some);

  auto y = saved_x;
  optimizer<float, adam> other(y, {.rate = 0.5});
  for (std::size_t k = 0; k < 2; ++k) std::ranges::copy(saved[k], other.state()[k].values.begin());
  other.steps() = 1;
  other.step(some);
  CHECK(y == x);
  CHECK(optimizer(x, sgd{}).state().empty());
}

TEST_CASE("a parameter that no rank has used stays as it is") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1), std::vector<float>(3, 2)};
  known_gradients some{{std::vector<float>(5, 0.25f), std::vector<float>(3, -1)}, {false, true}};
  optimizer descent(x, momentum{.rate = 1});
  descent.step(some);
  CHECK(x[0] == std::vector<float>(5, 1));
  CHECK(x[1] == std::vector<float>(3, 3));
  CHECK(std::ranges::count(descent.state()[0].values, 0.0f) == 5);
}

TEST_CASE("a step multiplies gradients by its scale, and changes nothing if that is 0") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1), std::vector<float>(3, 2)};
  known_gradients some{{std::vector<float>(5, 0.25f), std::vector<float>(3, -1)}};
  optimizer descent(x, momentum{.rate = 1});
  descent.step(some, 2);
  CHECK(x == std::vector<std::vector<float>>{std::vector<float>(5, 0.5f), std::vector<float>(3, 4)});
  auto const before = x;
  some.all[1][2] = std::numeric_limits<float>::infinity();
  descent.step(some, 0);
  CHECK(x == before);
  CHECK(descent.steps() == 1);
  CHECK(descent.state()[0].values[7] == -2);
}

TEST_CASE("a step with a scale that is 0 as a float is not counted") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1)};
  known_gradients some{{std::vector<float>(5, 1)}};
  optimizer descent(x, adam{});
  descent.step(some, 1e-50);
  CHECK(descent.steps() == 0);
}

TEST_CASE("an update with a gradient of another parameter is refused") {
  std::vector<std::vector<float>> x{std::vector<float>(5), std::vector<float>(3)};
  optimizer descent(x, sgd{});
  std::vector<float> const g(5);
  descent.begin_step();
  auto const refused = [&](std::size_t parameter, std::string const& why) {
    testing::expect_error(testing::error_of([&] { return descent.update(parameter, g), 0; }), error_code::bad_argument,
                          why);
  };
  CHECK_NOTHROW(refused(1, "parameter 1 has 3 elements, but its gradient has 5"));
  CHECK_NOTHROW(refused(2, "there is no parameter 2, only 2 parameters"));
  CHECK_NOTHROW(descent.update(0, g));
  CHECK_NOTHROW(refused(0, "parameter 0 was updated twice in one step"));
  descent.begin_step();
  CHECK_NOTHROW(descent.update(0, g));
}

TEST_CASE("an update before the first step is refused, because Adam would divide by zero") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1)};
  std::vector<float> const g(5, 1);
  optimizer descent(x, adam{});
  CHECK_NOTHROW(testing::expect_error(testing::error_of([&] { return descent.update(0, g), 0; }),
                                      error_code::bad_argument, "parameter 0 was updated before the first step"));
  CHECK(x[0] == std::vector<float>(5, 1));
}

TEST_CASE("an update whose scale is 0 changes nothing, whatever the gradient") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1)};
  optimizer descent(x, momentum{.weight_decay = 0.1});
  descent.begin_step();
  descent.update(0, std::vector<float>(5, std::numeric_limits<float>::infinity()), 0);
  CHECK(x[0] == std::vector<float>(5, 1));
  CHECK(std::ranges::count(descent.state()[0].values, 0.0f) == 5);
}

TEST_CASE("an optimiser of parameters that share memory is refused, because it would change them twice") {
  std::vector<float> x(10);
  std::vector<std::span<float>> const tied{std::span(x), std::span(x).subspan(9)};
  CHECK_NOTHROW(testing::expect_error(testing::error_of([&] { return optimizer(tied, sgd{}).steps(); }),
                                      error_code::bad_argument, "parameter 0 and parameter 1 share memory"));
}

TEST_CASE("a step by the gradients of another model changes nothing") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1), std::vector<float>(3, 2)};
  known_gradients some{{std::vector<float>(5, 1), std::vector<float>(2, 1)}};
  optimizer descent(x, sgd{});
  auto const before = x;
  CHECK_NOTHROW(testing::expect_error(testing::error_of([&] { return descent.step(some), 0; }),
                                      error_code::bad_argument, "parameter 1 has 3 elements, but its gradient has 2"));
  some.all[1].resize(3);
  some.all.emplace_back(1);
  CHECK_NOTHROW(testing::expect_error(testing::error_of([&] { return descent.step(some), 0; }),
                                      error_code::bad_argument, "the model has 3 parameters, but its optimiser has 2"));
  CHECK(x == before);
  CHECK(descent.steps() == 0);
}

TEST_CASE("constants with which steps would divide by zero or make no sense are refused") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1)};
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const refused = [&](auto const& rule, std::string const& why) {
    testing::expect_error(testing::error_of([&] { return optimizer(x, rule).steps(); }), error_code::bad_argument, why);
  };
  CHECK_NOTHROW(refused(sgd{.rate = nan}, "sgd::rate is nan"));
  CHECK_NOTHROW(refused(sgd{.rate = 1e-3, .weight_decay = -1}, "sgd::weight_decay is -1"));
  CHECK_NOTHROW(refused(momentum{.rate = -0.5}, "momentum::rate is -0.5"));
  CHECK_NOTHROW(refused(momentum{.factor = 1e300}, "momentum::factor is inf"));  // as a float
  CHECK_NOTHROW(refused(momentum{.weight_decay = nan}, "momentum::weight_decay is nan"));
  CHECK_NOTHROW(refused(adam{.rate = nan}, "adam::rate is nan"));
  CHECK_NOTHROW(refused(adam{.beta1 = 1}, "adam::beta1 is 1"));
  CHECK_NOTHROW(refused(adam{.beta1 = -0.1}, "adam::beta1 is -0.1"));
  CHECK_NOTHROW(refused(adam{.beta2 = 1 - 1e-9}, "adam::beta2 is 1 in the type of the parameters"));  // as a float
  CHECK_NOTHROW(refused(adam{.epsilon = 0}, "adam::epsilon is 0"));
  CHECK_NOTHROW(refused(adam{.epsilon = 1e-60}, "which is 0 in the type of the parameters"));
  CHECK_NOTHROW(refused(adam{.epsilon = -1}, "adam::epsilon is -1"));
  CHECK_NOTHROW(refused(adam{.weight_decay = nan}, "adam::weight_decay is nan"));
  std::vector<std::vector<double>> y{std::vector<double>(5, 1)};
  CHECK_NOTHROW(optimizer(y, adam{.beta2 = 1 - 1e-9, .epsilon = 1e-60}));
  CHECK_NOTHROW(optimizer(x, sgd{.rate = 0}));
}

TEST_CASE("a rate or a scale that is no number is refused before anything changes") {
  std::vector<std::vector<float>> x{std::vector<float>(5, 1), std::vector<float>(3, 2)};
  known_gradients some{{std::vector<float>(5, 0.25f), std::vector<float>(3, -1)}};
  optimizer descent(x, momentum{.rate = 1});
  auto const before = x;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const refused = [&](auto&& step, std::string const& why) {
    testing::expect_error(testing::error_of([&] { return step(), 0; }), error_code::bad_argument, why);
  };
  CHECK_NOTHROW(refused([&] { descent.step(some, nan); }, "a step is to multiply gradients by nan"));
  CHECK_NOTHROW(refused([&] { descent.step(some, 1e300); }, "a step is to multiply gradients by inf"));  // as a float
  descent.rule().rate = nan;
  CHECK_NOTHROW(refused([&] { descent.step(some); }, "momentum::rate is nan"));
  CHECK_NOTHROW(refused([&] { descent.begin_step(); }, "momentum::rate is nan"));
  CHECK(x == before);
  CHECK(descent.steps() == 0);
  descent.rule().rate = 1;
  descent.begin_step();
  CHECK_NOTHROW(refused([&] { descent.update(0, some.all[0], std::numeric_limits<float>::infinity()); },
                        "a step is to multiply gradients by inf"));
  CHECK(x == before);
}
