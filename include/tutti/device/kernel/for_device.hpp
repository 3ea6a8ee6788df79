// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refuses what a user passes to a kernel if only the host can use it. Where a function for host and device calls a function of the host,
// nvcc warns, and leaves the call out of the kernel.
#pragma once

#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/reduce/determinism.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/members.hpp"
#include "tutti/reduce/operation.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/reduce/wire.hpp"

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
// For a wrapper, check the function that it calls.
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

// A function, or its address, is that of the host.
template <class F>
inline constexpr bool has_function_of_host = std::is_pointer_v<F> || std::is_function_v<F>;
template <class Step, class S, int Arrays, held Elements>
inline constexpr bool has_function_of_host<arrays_step<Step, S, Arrays, Elements>> = has_function_of_host<Step>;
template <class Op, class Before, class After>
inline constexpr bool has_function_of_host<fused<Op, Before, After>> =
    has_function_of_host<Op> || has_function_of_host<Before> || has_function_of_host<After>;
template <class Wire, class How>
inline constexpr bool has_function_of_host<on_wire<Wire, How>> = has_function_of_host<How>;
template <class How, class Epilogue>
inline constexpr bool has_function_of_host<row_wise<How, Epilogue>> = has_function_of_host<How>;

// Devices have a type of this name that is a double.
template <class T>
inline constexpr bool has_long_double = std::is_same_v<T, long double>;
template <template <class> class Of, class T>
inline constexpr bool has_long_double<Of<T>> = has_long_double<T>;

// Operations that call functions of the standard library that devices do not have.
template <class>
inline constexpr bool is_for_hosts = false;
template <>
inline constexpr bool is_for_hosts<reproducible_sum> = true;
template <class... Ops>
inline constexpr bool is_for_hosts<each<Ops...>> = true;
template <class Op, class Before, class After>
inline constexpr bool is_for_hosts<fused<Op, Before, After>> = is_for_hosts<Op>;

template <class>
inline constexpr bool has_rows_and_wire = false;
template <class Wire, class How, class Epilogue>
inline constexpr bool has_rows_and_wire<row_wise<on_wire<Wire, How>, Epilogue>> = true;
template <class Wire, class How, class Epilogue>
inline constexpr bool has_rows_and_wire<on_wire<Wire, row_wise<How, Epilogue>>> = true;

// An operation, or one with more around it, on elements.
template <class Op, class... Elements>
consteval void expect_usable_on_devices() {
  static_assert(!has_function_of_host<Op>,
                "devices cannot call a function by its address on the host; pass a __host__ __device__ function object "
                "or lambda that calls it");
  static_assert(
      !is_for_hosts<Op> && !(has_members<Elements> || ...),
      "reproducible_sum, each, pairs and tuples are for hosts; on devices, pass an operation of your own on a "
      "struct");
  static_assert(!has_rows_and_wire<Op>, "by_rows and wire cannot be combined; leave one of them out");
  static_assert(!(has_long_double<Elements> || ...), "devices have no long double; convert the elements to double");
}

}  // namespace tutti::detail
