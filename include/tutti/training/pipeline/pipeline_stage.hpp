// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the functions of a pipeline's stage get, and what they may return.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "tutti/reduce/types.hpp"

namespace tutti {
namespace training {

// The forward pass of a microbatch through a stage.
template <element T>
struct stage_forward {
  int stage = 0;       // among all stages of the model
  int microbatch = 0;  // from 0; the first stage takes the data of this one
  // The activation that the stage before has written, which run() keeps until the backward pass has run; empty in the first stage.
  std::span<T const> in{};
  std::span<T> out{};  // to write, all of it, before the function returns; empty in the last stage
  bool again = false;  // the pass runs a second time (pipeline_options::recompute), and must compute the same
  double loss = 0;     // the last stage writes the loss of the microbatch
};

// The backward pass of a microbatch through a stage. It adds to the gradients of the stage's parameters.
template <element T>
struct stage_backward {
  int stage = 0;
  int microbatch = 0;
  std::span<T const> in{};            // that of the forward pass
  std::span<T const> out_gradient{};  // of the loss with respect to the stage's output; empty in the last stage
  std::span<T> in_gradient{};         // to write, all of it; empty in the first stage
  bool last = false;  // no backward pass of this stage follows: the gradients of its parameters are complete afterwards
};

}  // namespace training

namespace detail {

// What a forward pass returns, for its backward pass; a monostate if it returns nothing.
template <class Forward, class T>
using returned_by_stage = std::decay_t<std::invoke_result_t<Forward&, training::stage_forward<T>&>>;
template <class Forward, class T>
using saved_by_stage =
    std::conditional_t<std::is_void_v<returned_by_stage<Forward, T>>, std::monostate, returned_by_stage<Forward, T>>;

template <class Forward, class T>
consteval bool accepts_forward() {
  constexpr bool fits = std::invocable<Forward&, training::stage_forward<T>&>;
  static_assert(fits, "the forward pass of a stage takes a training::stage_forward<T>&, where T is the element type");
  return fits;
}
template <class Forward, class Backward, class T>
consteval bool accepts_stage() {
  if constexpr (accepts_forward<Forward, T>()) {
    constexpr bool fits =
        std::is_void_v<returned_by_stage<Forward, T>>
            ? std::invocable<Backward&, training::stage_backward<T> const&>
            : std::invocable<Backward&, training::stage_backward<T> const&, saved_by_stage<Forward, T>>;
    static_assert(fits,
                  "the backward pass of a stage takes a training::stage_backward<T> const& and, if the forward pass "
                  "returns a value, that value");
    return fits;
  } else {
    return false;
  }
}

}  // namespace detail
}  // namespace tutti
