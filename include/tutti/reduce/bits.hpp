// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on bits and on truth values.
#pragma once

#include <string_view>
#include <type_traits>

#include "tutti/reduce/identity.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

// a & b, of each bit. Identity: all bits set.
struct bit_and {
  static constexpr std::string_view name = "bit_and";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a & a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a & b);
  }
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    if constexpr (std::is_same_v<T, bool>) return true;
    else return static_cast<T>(~T{});
  }
};

// a | b, of each bit. Identity: 0.
struct bit_or : detail::identity_is_zero {
  static constexpr std::string_view name = "bit_or";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a | a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a | b);
  }
};

// a ^ b, of each bit. Identity: 0.
struct bit_xor : detail::identity_is_zero {
  static constexpr std::string_view name = "bit_xor";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a ^ a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a ^ b);
  }
};

// Whether both are not zero: 0 or 1, in an arithmetic type. (`&` on two bools instead of `&&` avoids a branch in the
// loop.)
struct logical_and : detail::identity_is_one {
  static constexpr std::string_view name = "logical_and";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) & (b != T{}));
  }
};

// Whether at least one is not zero: 0 or 1, in an arithmetic type.
struct logical_or : detail::identity_is_zero {
  static constexpr std::string_view name = "logical_or";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) | (b != T{}));
  }
};

// Whether exactly one is not zero: 0 or 1, in an arithmetic type. Of all ranks: whether an odd number is not zero.
struct logical_xor : detail::identity_is_zero {
  static constexpr std::string_view name = "logical_xor";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) != (b != T{}));
  }
};

}  // namespace tutti
