// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an argument of a call is: an array or a value, which can be written to or not, and its elements.
#pragma once

#include <ranges>
#include <type_traits>

#include "tutti/call/noncontiguous.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

// An argument that is meant as an array, whether or not it can be one.
template <class R>
concept array_argument =
    std::ranges::range<R> || noncontiguous_array<R> || std::is_null_pointer_v<std::remove_cvref_t<R>> ||
    (std::is_pointer_v<std::remove_cvref_t<R>> && std::is_object_v<std::remove_pointer_t<std::remove_cvref_t<R>>>);

// An argument that is meant as an operation. An array in its place is an output.
template <class Op>
concept operation_argument = !array_argument<Op> || std::is_pointer_v<Op>;

template <class R>
inline constexpr bool can_be_written = false;
template <std::ranges::range R>
  requires(!noncontiguous_array<R>)
inline constexpr bool can_be_written<R> = !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <noncontiguous_array R>
inline constexpr bool can_be_written<R> = noncontiguous_elements<R>::writable;

template <class R>
inline constexpr bool outlives_call = std::is_lvalue_reference_v<R> || refers_to_elements<std::remove_cv_t<R>>;

// An array that a call of one array replaces: it can be written to and outlives the call. All else, values and arrays
// that are const or temporary, makes the call return its result.
template <class R>
concept in_place_argument = can_be_written<R> && outlives_call<R>;

// A list of arrays rather than an array, unless Op combines its arrays as elements, such as std::array<float, 3>.
template <class R, class Op>
concept lists_arrays = std::ranges::range<R> && std::ranges::range<std::ranges::range_reference_t<R>> &&
                       !operation<Op, std::ranges::range_value_t<R>>;

template <class R>
struct element_of_argument {
  using type = std::remove_cvref_t<R>;
};
template <std::ranges::range R>
struct element_of_argument<R> {
  using type = std::ranges::range_value_t<R>;
};
template <noncontiguous_array R>
  requires(!std::ranges::range<R>)
struct element_of_argument<R> {
  using type = typename noncontiguous_elements<R>::value_type;
};
// The type of a value, or of the elements of an array.
template <class R>
using element_in = typename element_of_argument<R>::type;

}  // namespace tutti::detail
