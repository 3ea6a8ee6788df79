// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of tensors: from the types and operations of torch to those of tutti.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "communicator.hpp"

namespace tutti_torch {

// Each starts a collective of contiguous tensors. The implementations are in sources of their own, because each is compiled for every
// type and operation.
tutti::work start_all_reduce(communicator& comm, at::Tensor const& data, c10d::ReduceOp const& op,
                             tutti::options const& o);
tutti::work start_reduce(communicator& comm, at::Tensor const& data, c10d::ReduceOp const& op, int root,
                         tutti::options const& o);
tutti::work start_reduce_scatter(communicator& comm, at::Tensor const& in, at::Tensor const& out,
                                 c10d::ReduceOp const& op, tutti::options const& o);

template <class T>
std::span<T> elements(at::Tensor const& t) {
  return {static_cast<T*>(t.data_ptr()), static_cast<std::size_t>(t.numel())};
}

[[noreturn]] void refuse_reduction(at::ScalarType type, c10d::ReduceOp const& op);
double premultiplier(c10d::ReduceOp const& op);

// Returns start<T>(operation), where T are the elements of the tensors and the operation combines them.
template <class T, class Start>
tutti::work with_operation(at::ScalarType type, c10d::ReduceOp const& op, Start const& start) {
  using c10d::ReduceOp;
  constexpr bool real = !std::is_integral_v<T>;
  switch (static_cast<ReduceOp::RedOpType>(op)) {
    case ReduceOp::SUM:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_or{});
      else return start.template operator()<T>(tutti::sum{});
    case ReduceOp::PRODUCT:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_and{});
      else return start.template operator()<T>(tutti::product{});
    case ReduceOp::MIN:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_and{});
      else return start.template operator()<T>(tutti::min{});
    case ReduceOp::MAX:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_or{});
      else return start.template operator()<T>(tutti::max{});
    case ReduceOp::AVG:
      if constexpr (real) return start.template operator()<T>(tutti::mean{});
      break;
    case ReduceOp::PREMUL_SUM:
      if constexpr (real) {
        using factor = std::conditional_t<std::is_same_v<T, double>, double, float>;
        return start.template operator()<T>(tutti::premultiplied_sum{static_cast<factor>(premultiplier(op))});
      }
      break;
    case ReduceOp::BAND:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_and{});
      else if constexpr (!real) return start.template operator()<T>(tutti::bit_and{});
      break;
    case ReduceOp::BOR:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_or{});
      else if constexpr (!real) return start.template operator()<T>(tutti::bit_or{});
      break;
    case ReduceOp::BXOR:
      if constexpr (std::is_same_v<T, bool>) return start.template operator()<T>(tutti::logical_xor{});
      else if constexpr (!real) return start.template operator()<T>(tutti::bit_xor{});
      break;
    default: break;
  }
  refuse_reduction(type, op);
}

template <class Start>
tutti::work with_type_and_operation(at::ScalarType type, c10d::ReduceOp const& op, Start const& start) {
  switch (type) {
    case at::kFloat: return with_operation<float>(type, op, start);
    case at::kDouble: return with_operation<double>(type, op, start);
    case at::kHalf: return with_operation<tutti::half>(type, op, start);
    case at::kBFloat16: return with_operation<tutti::bfloat16>(type, op, start);
    case at::kChar: return with_operation<std::int8_t>(type, op, start);
    case at::kByte: return with_operation<std::uint8_t>(type, op, start);
    case at::kShort: return with_operation<std::int16_t>(type, op, start);
    case at::kInt: return with_operation<std::int32_t>(type, op, start);
    case at::kLong: return with_operation<std::int64_t>(type, op, start);
    case at::kBool: return with_operation<bool>(type, op, start);
    default: refuse_reduction(type, op);
  }
}

}  // namespace tutti_torch
