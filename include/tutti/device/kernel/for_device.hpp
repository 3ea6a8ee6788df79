// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refuses what a user passes to a kernel if only the host can call it. Where a function for host and device calls it, nvcc warns, and
// leaves the call out of the kernel.
#pragma once

#include "tutti/core/config.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

template <class... Args, class F>
TUTTI_DEVICE void call_on_device(F const& f, Args*... x) {
  static_cast<void>(f(*x...));
}

// An error at compile time if f cannot be called with objects of these types on the device.
template <class... Args, class F>
[[gnu::always_inline]] TUTTI_HOST_DEVICE inline void expect_for_device([[maybe_unused]] F const& f) {
#if defined(__CUDA_ARCH__)
  if (false) call_on_device<Args...>(f, static_cast<Args*>(nullptr)...);
#endif
}
// What calls another function for host and device stands for that.
template <class... Args, class F>
[[gnu::always_inline]] TUTTI_HOST_DEVICE inline void expect_for_device(stage_in_memory<F> const& stage) {
  expect_for_device<Args...>(*stage.memory);
}
template <class... Args, class Step, class F>
[[gnu::always_inline]] TUTTI_HOST_DEVICE inline void expect_for_device(step_with_rate<Step, F> const& with) {
  expect_for_device<Args...>(with.step);
}
template <class... Args, class Op>
[[gnu::always_inline]] TUTTI_HOST_DEVICE inline void expect_for_device(bare<Op> const& with) {
  expect_for_device<Args...>(with.op);
}

// Calls of members, for expect_for_device.
struct preparing {
  template <class Op, class A>
  TUTTI_DEVICE void operator()(Op const& op, A const& x) const {
    static_cast<void>(op.prepare(x));
  }
};
struct finishing {
  template <class Op, class A>
  TUTTI_DEVICE void operator()(Op const& op, A const& x) const {
    static_cast<void>(op.finish(x, 1));
  }
};
struct finishing_rows {
  template <class Step, class... Columns>
  TUTTI_DEVICE void operator()(Step const& step, float x, Columns const&... columns) const {
    static_cast<void>(step.finish(x, step.row(step.combine(step.of(x), step.of(x)), 1), columns...));
  }
};

}  // namespace tutti::detail
