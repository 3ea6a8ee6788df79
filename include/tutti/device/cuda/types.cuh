// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's own narrow types as elements. Like the library's, they are combined in float and rounded once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "tutti/reduce/types.hpp"

namespace tutti {

template <>
struct element_traits<__half> : detail::combined_in_float {};
template <>
struct element_traits<__nv_bfloat16> : detail::combined_in_float {};
template <>
struct element_traits<__nv_fp8_e4m3> : detail::combined_in_float {};
template <>
struct element_traits<__nv_fp8_e5m2> : detail::combined_in_float {};

static_assert(element<__half> && element<__nv_bfloat16> && element<__nv_fp8_e4m3> && element<__nv_fp8_e5m2>);

}  // namespace tutti
