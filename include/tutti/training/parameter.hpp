// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of a model, as the ranks that train it describe them to each other.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/reduce/types.hpp"

namespace tutti {
namespace training {

// An array that training changes: the weights of a layer, for example. Without a shape it has one dimension; the last
// index varies fastest, so a matrix that lies column by column has the shape {columns, rows}. All ranks pass the same
// names and shapes, which errors quote.
//
//   tutti::training::parameter<float> const weights{matrix, "first layer, weights", {64, 512}};
template <element T>
struct parameter {
  using value_type = T;

  std::span<T> values;
  std::string name{};
  std::vector<std::size_t> shape{};
};

}  // namespace training

namespace detail {

inline std::size_t elements_of_shape(std::span<std::size_t const> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

template <class>
inline constexpr bool is_parameter = false;
template <class T>
inline constexpr bool is_parameter<training::parameter<T>> = true;

// Parameters, or arrays of their values.
template <class List>
concept parameter_list =
    std::ranges::forward_range<List> && (is_parameter<std::ranges::range_value_t<List>> ||
                                         std::ranges::contiguous_range<std::ranges::range_reference_t<List>>);

template <parameter_list List>
auto parameters_of(List&& list) {
  using listed = std::ranges::range_value_t<List>;
  if constexpr (is_parameter<listed>) {
    return std::vector<listed>(std::ranges::begin(list), std::ranges::end(list));
  } else {
    using array = std::ranges::range_reference_t<List>;
    using value = std::remove_reference_t<std::ranges::range_reference_t<array>>;
    static_assert(std::is_lvalue_reference_v<array> || std::ranges::borrowed_range<array>,
                  "this list makes its arrays when they are asked for, so they would be gone at once; pass a list of "
                  "arrays that exist, or of spans");
    static_assert(!std::is_const_v<value>,
                  "these arrays are const, but training changes parameters; pass writable ones");
    std::vector<training::parameter<value>> out;
    for (auto&& one : list) out.push_back({.values = one});
    return out;
  }
}

template <class List>
using value_of_parameters = typename decltype(parameters_of(std::declval<List>()))::value_type::value_type;

}  // namespace detail
}  // namespace tutti
