// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimisers: gradient descent, with momentum, Adam; and their state, which a checkpoint stores.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/training/gradient_norm.hpp"
#include "tutti/training/parameter.hpp"
#include "tutti/training/same_parameters.hpp"

namespace tutti {
namespace detail {

// Throws bad_argument unless a constant of a rule is at least 0 and below `end`. `name`: "adam::rate".
[[gnu::cold]] void expect_constant(std::string_view name, double value, double end, std::source_location where);
[[noreturn, gnu::cold]] void refuse_epsilon(double value, std::source_location where);
// Throws bad_argument unless steps may multiply gradients by this.
[[gnu::cold]] void expect_scale(double scale, std::source_location where);
// Throws bad_argument unless the model of a step has as many parameters as its optimiser.
[[gnu::cold]] void expect_parameters(std::size_t of_model, std::size_t own, std::source_location where);
// Throw bad_argument for a gradient that is not that of a parameter, which has `own` elements if it is one of `parameters`; and for a
// second update of a parameter in step `steps`.
[[noreturn, gnu::cold]] void refuse_gradient(std::size_t parameter, std::size_t elements, std::size_t parameters,
                                             std::size_t own, std::source_location where);
[[noreturn, gnu::cold]] void refuse_update(std::size_t parameter, std::uint64_t steps, std::source_location where);

inline constexpr double no_limit = std::numeric_limits<double>::infinity();  // every number is below it

}  // namespace detail

namespace training {

// How an optimiser changes a parameter: an aggregate of its constants, in double, with
//
//   static constexpr std::array<std::string_view, N> state   the names of the N numbers that it keeps for each parameter
//   rule.step_at<T>(t)   the function of step t, counted from 1, on numbers of type T: step(gradient, T (&values)[1 + N])
//                        returns the new parameter. values[0] is the old one; the others are the state, zero before the
//                        first step, which it updates.
//
// A rule may also have
//
//   rule.expect_valid<T>(where)   throws error: bad_argument for constants, as rounded to T, with which steps make no sense
//
// The function of a step is also an epilogue for tutti::with_arrays and with_shards, which do the same on a GPU.
template <class Rule, class T>
concept optimizer_rule =
    std::copyable<Rule> && requires(Rule const& rule, T const& gradient, T (&values)[1 + Rule::state.size()]) {
      { rule.template step_at<T>(std::uint64_t{1})(gradient, values) } -> std::convertible_to<T>;
    };

// Gradient descent: x -= rate (g + weight_decay x), as torch.optim.SGD without momentum.
struct sgd {
  double rate = 1e-3;
  double weight_decay = 0;

  static constexpr std::array<std::string_view, 0> state{};

  template <class T>
  void expect_valid(std::source_location where) const {
    tutti::detail::expect_constant("sgd::rate", static_cast<T>(rate), tutti::detail::no_limit, where);
    tutti::detail::expect_constant("sgd::weight_decay", static_cast<T>(weight_decay), tutti::detail::no_limit, where);
  }
  template <class T>
  auto step_at(std::uint64_t) const {
    return [r = static_cast<T>(rate), decay = static_cast<T>(weight_decay)](T g, T(&values)[1]) {
      return values[0] - r * (g + decay * values[0]);
    };
  }
};

// Gradient descent with momentum, as torch.optim.SGD with dampening = 0: g += weight_decay x; v = factor v + g; then
// x -= rate v, or with Nesterov's momentum x -= rate (g + factor v). The learning rate is not part of v. (Sutskever et al.,
// "On the Importance of Initialization and Momentum in Deep Learning", ICML 2013.)
struct momentum {
  double rate = 1e-3;
  double factor = 0.9;
  double weight_decay = 0;
  bool nesterov = false;

  static constexpr std::array<std::string_view, 1> state{"velocity"};

  template <class T>
  void expect_valid(std::source_location where) const {
    using tutti::detail::expect_constant, tutti::detail::no_limit;
    expect_constant("momentum::rate", static_cast<T>(rate), no_limit, where);
    expect_constant("momentum::factor", static_cast<T>(factor), no_limit, where);
    expect_constant("momentum::weight_decay", static_cast<T>(weight_decay), no_limit, where);
  }
  template <class T>
  auto step_at(std::uint64_t) const {
    return [r = static_cast<T>(rate), f = static_cast<T>(factor), decay = static_cast<T>(weight_decay),
            ahead = nesterov](T g, T(&values)[2]) {
      g += decay * values[0];
      values[1] = f * values[1] + g;
      return values[0] - r * (ahead ? g + f * values[1] : values[1]);
    };
  }
};

// Adam with decoupled weight decay, as torch.optim.AdamW: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and
// x -= rate (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay x) in step t. (Kingma and Ba, "Adam",
// ICLR 2015; Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.) PyTorch's default is a weight_decay
// of 0.01 for AdamW, and 0 for Adam.
struct adam {
  double rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  static constexpr std::array<std::string_view, 2> state{"mean", "variance"};

  // A beta that is 1 when rounded, and an epsilon of 0 with gradients of 0, would make steps divide by zero.
  template <class T>
  void expect_valid(std::source_location where) const {
    using tutti::detail::expect_constant, tutti::detail::no_limit;
    expect_constant("adam::rate", static_cast<T>(rate), no_limit, where);
    expect_constant("adam::beta1", static_cast<T>(beta1), 1, where);
    expect_constant("adam::beta2", static_cast<T>(beta2), 1, where);
    expect_constant("adam::epsilon", static_cast<T>(epsilon), no_limit, where);
    if (static_cast<T>(epsilon) == 0) tutti::detail::refuse_epsilon(epsilon, where);
    expect_constant("adam::weight_decay", static_cast<T>(weight_decay), no_limit, where);
  }
  template <class T>
  basic_adam_step<T> step_at(std::uint64_t t) const {
    // Of the rounded numbers that the step uses, so that its weights of past gradients add up to 1.
    auto const correction = [t](double beta) {
      return static_cast<T>(1 - std::pow(static_cast<double>(static_cast<T>(beta)), static_cast<double>(t)));
    };
    return {.rate = static_cast<T>(rate),
            .beta1 = static_cast<T>(beta1),
            .beta2 = static_cast<T>(beta2),
            .epsilon = static_cast<T>(epsilon),
            .decay = static_cast<T>(weight_decay),
            .correction1 = correction(beta1),
            .correction2 = correction(beta2)};
  }
};

static_assert(optimizer_rule<sgd, float> && optimizer_rule<momentum, float> && optimizer_rule<adam, float>);
static_assert(optimizer_rule<sgd, double> && optimizer_rule<momentum, double> && optimizer_rule<adam, double>);

// A rule and its state for some parameters, in one allocation. Sends nothing; ranks that call it with the same numbers get the same bits.
//
//   tutti::training::optimizer descent(parameters, tutti::training::adam{.rate = 1e-3});
//   model.finish();
//   descent.step(model);
template <std::floating_point T, optimizer_rule<T> Rule>
class optimizer {
 public:
  // A list of arrays or of training::parameter. Steps change these arrays, which must stay where they are. Throws error:
  // bad_argument if two of them share memory, or for constants of the rule with which steps make no sense.
  template <tutti::detail::parameter_list List>
  explicit optimizer(List&& parameters, Rule rule = {}, std::source_location where = std::source_location::current())
      : rule_(std::move(rule)) {
    auto const all = tutti::detail::parameters_of(parameters);
    tutti::detail::expect_apart(all, -1, where);
    expect_valid_rule(rule_, where);
    for (auto const& one : all) {
      parameters_.push_back(one.values);
      begins_.push_back(elements_);
      elements_ += one.values.size();
    }
    state_.resize(arrays * elements_);
    updated_.assign(parameters_.size(), 1);
  }

  // May be changed between steps, to follow a schedule of the rate for example.
  Rule& rule() noexcept { return rule_; }

  // `model` is anything that has gradient(i) for each parameter, such as a data_parallel after finish(). Gradients are multiplied by
  // `scale`, as a T; if it is 0, nothing changes, even if they are infinite or NaN. A parameter that the model knows no rank has used keeps its
  // value and state, but the step counts for it too (PyTorch counts each parameter's). Throws error: bad_argument, before anything changes,
  // if a data_parallel has not finished its step, the model has other parameters, or `scale` or a constant of the rule is impossible.
  template <class Model>
  void step(Model& model, double scale = 1, std::source_location where = std::source_location::current()) {
    static_assert(
        !requires { model.optimizer(); },
        "this model has an optimiser of its own, because each rank holds only a part of the gradients; pass the rule "
        "to the model, and call model.step()");
    tutti::detail::expect_means(model, "step()", where);
    if constexpr (requires { model.size(); }) tutti::detail::expect_parameters(model.size(), parameters_.size(), where);
    for (std::size_t i = 0; i < parameters_.size(); ++i) expect_elements(i, model.gradient(i).size(), where);
    T const factor = static_cast<T>(scale);
    expect_step(factor, where);
    if (factor == 0) return;
    begin_step(where);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if constexpr (requires { model.used(i); })
        if (!model.used(i)) continue;
      update(i, model.gradient(i), factor, where);
    }
  }

  // The same in parts: begin_step(), and then update() for each parameter, at most once. Gradients are multiplied by `scale` as they
  // are read; if it is 0, the parameter stays as it is. Throws error: bad_argument if there is no such parameter, if it has
  // another number of elements, or if it has been updated since the last begin_step(); by begin_step() for a rule as above.
  void begin_step(std::source_location where = std::source_location::current()) {
    expect_valid_rule(rule_, where);
    ++steps_;
    std::ranges::fill(updated_, std::uint8_t{0});
  }
  void update(std::size_t parameter, std::span<T const> gradient, T scale = 1,
              std::source_location where = std::source_location::current()) {
    expect_elements(parameter, gradient.size(), where);
    tutti::detail::expect_scale(scale, where);
    if (std::exchange(updated_[parameter], std::uint8_t{1}) != 0)
      tutti::detail::refuse_update(parameter, steps_, where);
    if (scale == 0) return;
    std::array<T*, arrays> state{};
    for (std::size_t k = 0; k < arrays; ++k) state[k] = state_.data() + k * elements_ + begins_[parameter];
    apply(rule_.template step_at<T>(steps_), parameters_[parameter], gradient.data(), scale, state,
          std::make_index_sequence<arrays>());
  }

  // -- What a checkpoint stores: the number of steps, and the state: arrays with a number for each element of the parameters, in order.
  std::vector<parameter<T>> state() {
    std::vector<parameter<T>> out;
    for (std::string_view const name : Rule::state)
      out.push_back({std::span(state_).subspan(out.size() * elements_, elements_), std::string(name)});
    return out;
  }
  std::uint64_t& steps() noexcept { return steps_; }
  std::size_t state_bytes() const noexcept { return state_.size() * sizeof(T); }

  // -- For models that make such steps themselves: throw bad_argument as step() does.
  void expect_step(T scale, std::source_location where) const {
    expect_valid_rule(rule_, where);
    tutti::detail::expect_scale(scale, where);
  }
  static void expect_valid_rule(Rule const& rule, std::source_location where) {
    if constexpr (requires { rule.template expect_valid<T>(where); }) rule.template expect_valid<T>(where);
  }

 private:
  static constexpr std::size_t arrays = Rule::state.size();

  void expect_elements(std::size_t parameter, std::size_t elements, std::source_location where) const {
    bool const exists = parameter < parameters_.size();
    if (!exists || elements != parameters_[parameter].size())
      tutti::detail::refuse_gradient(parameter, elements, parameters_.size(),
                                     exists ? parameters_[parameter].size() : 0, where);
  }
  // g++ -O3 and clang -O2 vectorise this loop.
  template <class Step, std::size_t... K>
  static void apply(Step const& step, std::span<T> parameters, T const* gradients, T scale,
                    [[maybe_unused]] std::array<T*, arrays> state, std::index_sequence<K...>) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      T values[1 + arrays] = {parameters[i], state[K][i]...};
      parameters[i] = step(scale * gradients[i], values);
      ((state[K][i] = values[1 + K]), ...);
    }
  }

  Rule rule_;
  std::vector<std::span<T>> parameters_;
  std::vector<std::size_t> begins_;  // of each parameter, in an array of the state
  std::size_t elements_ = 0;
  std::vector<T> state_;
  std::vector<std::uint8_t> updated_;  // of each parameter, whether it was updated in this step
  std::uint64_t steps_ = 0;
};

template <class List, class Rule>
optimizer(List&&, Rule) -> optimizer<tutti::detail::value_of_parameters<List>, Rule>;

}  // namespace training
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/optimizers_impl.hpp"
#endif
