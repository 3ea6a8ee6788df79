// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's own narrow types as elements. Like the library's, they are combined in float and rounded once. They are only
// declared here, because their headers take nvcc two seconds, and who uses them includes those.
#pragma once

#include "tutti/reduce/types.hpp"

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace tutti {

template <>
struct element_traits<__half> : detail::combined_in_float {};
template <>
struct element_traits<__nv_bfloat16> : detail::combined_in_float {};
template <>
struct element_traits<__nv_fp8_e4m3> : detail::combined_in_float {};
template <>
struct element_traits<__nv_fp8_e5m2> : detail::combined_in_float {};

}  // namespace tutti
