// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What may be an element of a message, and in which type a reduction adds it up.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti {

// An element travels as its bytes: trivially copyable, and neither const nor a reference. (std::pair and std::tuple are
// not trivially copyable; a struct of the same members is.)
template <class T>
concept element = std::is_object_v<T> && std::is_trivially_copyable_v<T> && std::is_same_v<T, std::remove_cv_t<T>>;

// The policy of a storage type. Contributions are converted to the accumulator, combined there, and rounded to the
// storage type once, when the result is stored. Specialise it for a storage type of your own; both static_casts must
// exist:
//
//   template <> struct tutti::element_traits<fixed8> { using accumulator = int; };
template <class T>
struct element_traits {
  using accumulator = T;
};
struct combined_in_float {
  using accumulator = float;
};
template <>
struct element_traits<half> : combined_in_float {};
template <>
struct element_traits<bfloat16> : combined_in_float {};
template <>
struct element_traits<float8_e4m3> : combined_in_float {};
template <>
struct element_traits<float8_e5m2> : combined_in_float {};

// A value and where it was found: the element of max_location and min_location.
template <class T>
struct located {
  T value{};
  std::int64_t index = 0;

  friend constexpr bool operator==(located const&, located const&) = default;
};

static_assert(element<half> && element<bfloat16> && element<located<double>> && !element<float const> &&
              !element<float&>);

}  // namespace tutti
