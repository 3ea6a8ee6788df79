// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fusion into the pass that combines: a prologue on each contribution, an epilogue on each result, and arrays that the
// epilogue updates.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti {

namespace detail {

struct unchanged {
  template <class A>
  TUTTI_HOST_DEVICE constexpr A operator()(A const& x) const {
    return x;
  }
};

}  // namespace detail

// An operation with a prologue and an epilogue, both called on accumulators. Sources, their accumulator and destinations may
// differ in type; values are cast between them. In a collective, `prepare` and `finish` of the operation itself apply inside the
// prologue and the epilogue: fused{mean{}, scale{0.5f}} is the mean of scaled values.
//
//   fused{sum{}, unchanged{}, scale{0.25f}}                       the average of four
//   fused{sum{}, scale{0.5f}}                                     a pre-multiplied sum
//   fused{sum{}, unchanged{}, [=](float x) { return x + bias; }}
template <class Op, class Before = detail::unchanged, class After = detail::unchanged>
struct fused {
  Op op;
  Before before{};
  After after{};
};
template <class Op>
fused(Op) -> fused<Op>;
template <class Op, class Before>
fused(Op, Before) -> fused<Op, Before>;
template <class Op, class Before, class After>
fused(Op, Before, After) -> fused<Op, Before, After>;

namespace detail {

// The elements of the arrays of an epilogue: those of the rank's result, or those that the rank owns.
enum class held { all, shard };

// The epilogue that with_arrays and with_shards make.
template <class Step, class S, int Arrays, held Elements = held::all>
struct arrays_step {
  Step step;
  S* arrays[static_cast<std::size_t>(Arrays)];
};

}  // namespace detail

// An epilogue that also reads and writes element i of some arrays, in the same pass: step(result, S (&values)[Arrays]) returns
// the value to store in the destinations. In a collective in which each rank passes a buffer, element i is that of the rank's
// own result, and every rank has arrays of its own, so only one_shot supports it.
//
//   fused{sum{}, scale{1.0f / 8}, with_arrays(adam_step{.rate = 1e-3f}, weights, mean, variance)}
template <class Step, element S, std::same_as<S>... Rest>
constexpr detail::arrays_step<Step, S, 1 + static_cast<int>(sizeof...(Rest))> with_arrays(Step step, S* first,
                                                                                          Rest*... rest) {
  return {step, {first, rest...}};
}

// The same with arrays that are divided among the ranks, as ZeRO-1 divides the state of an optimiser: each rank passes only the
// elements that it owns, combines and updates these, and gets the results of all ranks, which are equal everywhere. Only
// all_reduce among ranks that each pass a buffer takes it, and carries it out by two_shot.
//
//   tutti::extent const mine = tutti::shard_of(ranks, gradient.size());     // weights, mean, variance: mine.count elements
//   fused{sum{}, scale{1.0f / 8}, with_shards(adam_step{.rate = 1e-3f}, weights, mean, variance)}
template <class Step, element S, std::same_as<S>... Rest>
constexpr detail::arrays_step<Step, S, 1 + static_cast<int>(sizeof...(Rest)), detail::held::shard> with_shards(
    Step step, S* first, Rest*... rest) {
  return {step, {first, rest...}};
}

namespace detail {

// Shards are multiples of this number of elements, so that all are aligned alike.
inline constexpr std::size_t shard_grain = 16;

}  // namespace detail

// The elements of a message of n elements that a rank owns: shards in rank order, of which the first are one grain of 16 elements
// longer if need be. Depends on nothing but n and the number of ranks.
constexpr extent shard_of(std::size_t n, int ranks, int rank) { return part(n, ranks, rank, detail::shard_grain); }
template <class Ranks>
constexpr extent shard_of(Ranks const& ranks, std::size_t n) {
  return shard_of(n, ranks.size(), ranks.rank());
}

namespace detail {

template <class>
inline constexpr int arrays_of = 0;
template <class Step, class S, int Arrays, held Elements>
inline constexpr int arrays_of<arrays_step<Step, S, Arrays, Elements>> = Arrays;
template <class Op, class Before, class After>
inline constexpr int arrays_of<fused<Op, Before, After>> = arrays_of<After>;

template <class>
inline constexpr bool has_shards = false;
template <class Step, class S, int Arrays>
inline constexpr bool has_shards<arrays_step<Step, S, Arrays, held::shard>> = true;
template <class Op, class Before, class After>
inline constexpr bool has_shards<fused<Op, Before, After>> = has_shards<After>;

// Whether each rank may combine a part of the message alone.
template <class Op>
inline constexpr bool works_in_parts = arrays_of<Op> == 0 || has_shards<Op>;

// The operation for a pass that starts at element `begin` and counts from 0.
template <class Op, class Before, class After>
TUTTI_HOST_DEVICE constexpr fused<Op, Before, After> shifted_by(std::size_t begin, fused<Op, Before, After> how) {
  if constexpr (arrays_of<After> > 0)
    for (auto& array : how.after.arrays) array += begin;
  return how;
}

// The stage that from_memory makes.
template <class F>
struct stage_in_memory {
  F const* memory;

  template <class... Arguments>
  TUTTI_HOST_DEVICE auto operator()(Arguments&&... arguments) const
      -> decltype((*memory)(static_cast<Arguments&&>(arguments)...)) {
    return (*memory)(static_cast<Arguments&&>(arguments)...);
  }
};

// The step that with_rate makes.
template <class Step, class F>
struct step_with_rate {
  Step step;
  F const* rate;

  template <class A, class S, std::size_t Arrays>
  TUTTI_HOST_DEVICE auto operator()(A const& x, S (&values)[Arrays]) const {
    Step now = step;
    now.rate = *rate;
    return now(x, values);
  }
};

// The number that from_memory makes.
template <class F>
struct number_in_memory {
  F const* memory;

  TUTTI_HOST_DEVICE operator F() const { return *memory; }
};

}  // namespace detail

// A prologue, an epilogue, or the step of with_arrays, that the call reads from memory when it runs: device memory that the GPUs
// of the call can access. Elsewhere a call keeps its functors as they were when it was made, which a captured graph repeats with
// each replay. The program writes to the memory between replays, on the stream of the call, and not while the call runs.
//
//   fused{sum{}, from_memory(loss_scale), with_arrays(from_memory(adam), weights, mean, variance)}
template <class F>
constexpr detail::stage_in_memory<F> from_memory(F const* stage) {
  static_assert(std::is_trivially_copyable_v<F>,
                "a stage is copied to the memory of a GPU as bytes, so it must be trivially copyable");
  return {stage};
}

// The same for a number of scale, clip or unscale, which a kernel of the program may have left there.
//
//   fused{sum{}, scale{from_memory(loss_scale)}}
template <class F>
  requires std::is_arithmetic_v<F>
constexpr detail::number_in_memory<F> from_memory(F const* number) {
  return {number};
}

// The step of an optimiser whose member `rate` is read from memory likewise; its other members stay as they are.
//
//   with_arrays(with_rate(sgd_step{.momentum = 0.9f}, learning_rate), weights, velocity)
template <class Step, class F>
constexpr detail::step_with_rate<Step, F> with_rate(Step const& step, F const* rate) {
  return {step, rate};
}

// A prologue or epilogue that multiplies by a factor.
template <class F>
struct scale {
  F factor;

  template <class A>
  TUTTI_HOST_DEVICE constexpr A operator()(A const& x) const {
    return static_cast<A>(x * factor);
  }
};
template <class F>
scale(F) -> scale<F>;

// A prologue or epilogue that limits values to the range from `least` to `greatest`. NaN stays NaN.
template <class Least, class Greatest = Least>
struct clip {
  Least least;
  Greatest greatest;

  template <class A>
  TUTTI_HOST_DEVICE constexpr A operator()(A const& x) const {
    return x < least ? static_cast<A>(least) : greatest < x ? static_cast<A>(greatest) : x;
  }
};
template <class Least, class Greatest>
clip(Least, Greatest) -> clip<Least, Greatest>;

// A prologue or epilogue that multiplies by a factor, to remove the scale of a loss. Sets *found to 1 if a result is not finite, on the
// ranks that combine that element: all of them by one_shot, its owner by two_shot. So that ranks agree, combine the flags afterwards.
//
//   tutti::all_reduce(ranks, found, tutti::max{});
template <class F>
struct unscale {
  F factor;
  int* found;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(A const& x) const {
    if (x - x != 0) *found = 1;  // infinity minus itself is NaN
    return static_cast<A>(x * factor);
  }
};
template <class F>
unscale(F, int*) -> unscale<F>;

// An epilogue for with_arrays: stochastic gradient descent with momentum, weight -= rate * velocity, with velocity = momentum *
// velocity + gradient. Arrays: weight, velocity.
template <class F>
struct basic_sgd_step {
  F rate, momentum = 0;

  template <class A>
  TUTTI_HOST_DEVICE constexpr F operator()(A gradient, F (&values)[2]) const {
    static_assert(std::is_same_v<A, F>,
                  "this step would narrow the gradients from the type in which they were summed; use sgd_step for "
                  "float and for types "
                  "that are summed in float, and basic_sgd_step<double> for double");
    values[1] = momentum * values[1] + gradient;
    return values[0] -= rate * values[1];
  }
};

// basic_sgd_step in float.
using sgd_step = basic_sgd_step<float>;

// An epilogue for with_arrays: Adam (Kingma and Ba 2014) with decoupled weight decay (Loshchilov and Hutter 2017). The
// corrections are 1 - beta^t for step t. Arrays: weight, mean and variance of gradients.
template <class F>
struct basic_adam_step {
  F rate, beta1 = F(0.9), beta2 = F(0.999), epsilon = F(1e-8), decay = 0, correction1 = 1, correction2 = 1;

  template <class A>
  TUTTI_HOST_DEVICE F operator()(A gradient, F (&values)[3]) const {
    static_assert(std::is_same_v<A, F>,
                  "this step would narrow the gradients from the type in which they were summed; use adam_step for "
                  "float and for types "
                  "that are summed in float, and basic_adam_step<double> for double");
    values[1] = beta1 * values[1] + (1 - beta1) * gradient;
    values[2] = beta2 * values[2] + (1 - beta2) * gradient * gradient;
    F const step = values[1] / correction1 / (std::sqrt(values[2] / correction2) + epsilon);
    return values[0] -= rate * (step + decay * values[0]);
  }
};

// basic_adam_step in float.
using adam_step = basic_adam_step<float>;

}  // namespace tutti
