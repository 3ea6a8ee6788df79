// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refuses what a user passes to a kernel if only the host can call it. Where a function for host and device calls it, nvcc warns, and
// leaves the call out of the kernel.
#pragma once

#include "tutti/core/config.hpp"

namespace tutti::detail {

#if defined(__CUDACC__)
template <class... Args, class F>
__device__ void call_on_device(F const& f, Args*... x) {
  static_cast<void>(f(*x...));
}
#endif

// An error at compile time if f cannot be called with objects of these types on the device.
template <class... Args, class F>
[[gnu::always_inline]] TUTTI_HOST_DEVICE inline void expect_for_device([[maybe_unused]] F const& f) {
#if defined(__CUDA_ARCH__)
  if (false) call_on_device<Args...>(f, static_cast<Args*>(nullptr)...);
#endif
}

}  // namespace tutti::detail
