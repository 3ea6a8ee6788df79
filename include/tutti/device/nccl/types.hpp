// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The element types and operations that NCCL has.
#pragma once

#include <concepts>
#include <type_traits>

#include "tutti/device/nccl/library.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"

struct __half;         // NOLINT(bugprone-reserved-identifier): CUDA's
struct __nv_bfloat16;  // NOLINT(bugprone-reserved-identifier): CUDA's

namespace tutti::detail::nccl {

template <class T>
consteval data_type type_of() {
  if constexpr (std::same_as<T, float>) return data_type::float32;
  else if constexpr (std::same_as<T, double>) return data_type::float64;
  else if constexpr (std::same_as<T, half> || std::same_as<T, __half>) return data_type::float16;
  else if constexpr (std::same_as<T, bfloat16> || std::same_as<T, __nv_bfloat16>) return data_type::bfloat16;
  else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    switch (sizeof(T)) {
      case 1: return std::is_signed_v<T> ? data_type::int8 : data_type::uint8;
      case 4: return std::is_signed_v<T> ? data_type::int32 : data_type::uint32;
      case 8: return std::is_signed_v<T> ? data_type::int64 : data_type::uint64;
      default: break;
    }
  }
  return data_type::none;
}

// Without what the operation does before and after. Minima and maxima of floating point are left out, because NCCL's pass over a
// NaN.
template <class T, class Op>
consteval operation operation_of() {
  constexpr bool combines = type_of<T>() != data_type::none, orders = combines && std::integral<T>;
  if constexpr (requires { typename Op::bare_form_of; }) return operation_of<T, typename Op::bare_form_of>();
  else if constexpr (combines && (std::same_as<Op, sum> || std::same_as<Op, mean>)) return operation::sum;
  else if constexpr (combines && std::same_as<Op, product>) return operation::product;
  else if constexpr (orders && std::same_as<Op, max>) return operation::max;
  else if constexpr (orders && std::same_as<Op, min>) return operation::min;
  else return operation::none;
}

}  // namespace tutti::detail::nccl
