// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Identities of the operations: of numbers, and of pairs and tuples of them.
#pragma once

#include <limits>
#include <tuple>
#include <type_traits>

#include "tutti/reduce/members.hpp"

namespace tutti::detail {

template <class T>
concept number = std::is_arithmetic_v<T>;

template <class T, class Limits = std::numeric_limits<T>>
inline constexpr T greatest = Limits::has_infinity ? Limits::infinity() : Limits::max();
template <class T, class Limits = std::numeric_limits<T>>
inline constexpr T least = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();

// Bases of operations whose identity is 0, which is T{} for a type of the user's, or 1.
struct identity_is_zero {
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    return T{};
  }
};
struct identity_is_one {
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    if constexpr (has_members<T>)
      return from_members<T>([](auto member) { return identity<std::tuple_element_t<member(), T>>(); });
    else return static_cast<T>(1);
  }
};

}  // namespace tutti::detail
