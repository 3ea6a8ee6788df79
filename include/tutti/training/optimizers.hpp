// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimisers: gradient descent, with momentum, Adam; and their state, which a checkpoint stores.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/training/parameter.hpp"

namespace tutti::training {

// How an optimiser changes a parameter: an aggregate of its constants, in double, with
//
//   static constexpr std::array<std::string_view, N> state   the names of the N numbers that it keeps for each parameter
//   rule.step_at<T>(t)   the function of step t, counted from 1, on numbers of type T: step(gradient, T (&values)[1 + N])
//                        returns the new parameter. values[0] is the old one; the others are the state, zero before the
//                        first step, which it updates.
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

// A rule and its state for a number of parameters, in one allocation. Ranks that call it with the same numbers get the same
// bits; nothing is sent.
//
//   tutti::training::optimizer<float, tutti::training::adam> descent(model.elements(), {.rate = 1e-3});
//   model.finish();
//   descent.step(parameters, model);
template <std::floating_point T, optimizer_rule<T> Rule>
class optimizer {
 public:
  explicit optimizer(std::size_t elements, Rule rule = {})
      : rule_(std::move(rule)), elements_(elements), state_(arrays * elements) {}

  // May be changed between steps, to follow a schedule of the rate for example.
  Rule& rule() noexcept { return rule_; }
  std::size_t elements() const noexcept { return elements_; }

  // A step of a model with these parameters, a list of arrays or of training::parameter. `model` is anything that has
  // gradient(i), such as a data_parallel after finish(). Gradients are multiplied by `scale`; if it is 0, nothing changes, whatever
  // they are. Parameters that no rank has used, where it knows, stay as they are, and so does their state; but the step counts for
  // them, too, where PyTorch counts those of each parameter. Throws error: bad_argument, before anything changes, if the
  // parameters have another number of elements than the state.
  template <tutti::detail::parameter_list List, class Model>
  void step(List&& parameters, Model& model, double scale = 1,
            std::source_location where = std::source_location::current()) {
    auto const all = tutti::detail::parameters_of(parameters);
    std::size_t elements = 0;
    for (auto const& one : all) elements += one.values.size();
    if (elements != elements_)
      tutti::detail::refuse(
          -1,
          tutti::detail::join({"a step was called with ", elements,
                               " elements of parameters, but the optimiser has the state of ", elements_}),
          "pass all parameters in every step, in the same order", where);
    if (scale == 0) return;
    begin_step();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < all.size(); begin += all[i++].values.size()) {
      if constexpr (requires { model.used(i); })
        if (!model.used(i)) continue;
      update(begin, all[i].values, model.gradient(i), static_cast<T>(scale), where);
    }
  }

  // The same in parts: begin_step(), and then update() for each part once. Element 0 of a part is element `begin` of the
  // state. Gradients are multiplied by `scale` as they are read. Throws error: bad_argument if a part is not one of its
  // elements.
  void begin_step() noexcept { ++steps_; }
  void update(std::size_t begin, std::span<T> parameters, std::span<T const> gradients, T scale = 1,
              std::source_location where = std::source_location::current()) {
    std::size_t const n = parameters.size();
    if (gradients.size() != n || begin > elements_ || n > elements_ - begin)
      tutti::detail::refuse(
          -1,
          tutti::detail::join({"a step changes ", n, " parameters from ", begin, " on by ", gradients.size(),
                               " gradients, but the optimiser has the state of ", elements_}),
          "make it for all parameters, and pass a gradient for each", where);
    std::array<T*, arrays> state{};
    for (std::size_t k = 0; k < arrays; ++k) state[k] = state_.data() + k * elements_ + begin;
    apply(rule_.template step_at<T>(steps_), parameters, gradients.data(), scale, state,
          std::make_index_sequence<arrays>());
  }

  // -- What a checkpoint stores: the state, of which each array has a number for each parameter, and the number of steps.
  std::vector<parameter<T>> state() {
    std::vector<parameter<T>> out;
    for (std::string_view const name : Rule::state)
      out.push_back({std::span(state_).subspan(out.size() * elements_, elements_), std::string(name)});
    return out;
  }
  std::uint64_t& steps() noexcept { return steps_; }
  std::size_t state_bytes() const noexcept { return state_.size() * sizeof(T); }

 private:
  static constexpr std::size_t arrays = Rule::state.size();

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
  std::size_t elements_;
  std::vector<T> state_;
  std::uint64_t steps_ = 0;
};

}  // namespace tutti::training
