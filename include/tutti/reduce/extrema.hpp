// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The least and the greatest of all values, also with their places.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tutti/reduce/identity.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {
namespace detail {

// The index of no element.
inline constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();

// Whether b replaces a, if it is `better` or not: NaN replaces every number, and of equal values the one with the lesser index
// stays. So the result does not depend on the order of combination.
template <class T>
TUTTI_HOST_DEVICE constexpr bool replaces(located<T> const& b, located<T> const& a, bool better) {
  bool equal = a.value == b.value;
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) {
    bool const nan = a.value != a.value, other = b.value != b.value;
    better |= other && !nan;
    equal |= other && nan;
  }
  return better || (equal && b.index < a.index);
}

}  // namespace detail

// The lesser of two. If any number is NaN, the result is NaN, in whatever order elements are combined. Of equals the left one
// stays (so of -0 and +0). Other types are compared by `b < a` alone: std::pair and std::tuple by their first members, and
// where these are equal by the next (see each for the least of each member).
struct min {
  static constexpr std::string_view name = "min";
  static constexpr bool commutative = true;

  TUTTI_CALLS_ANY
  template <class T>
    requires requires(T const& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    if constexpr (std::floating_point<T>) return ((b < a) | (b != b)) ? b : a;
    else return b < a ? b : a;
  }
  template <class T>
    requires std::numeric_limits<T>::is_specialized
  TUTTI_HOST_DEVICE static constexpr T identity() {
    constexpr T value = detail::greatest<T>;
    return value;
  }
};

// The greater of two; everything else as min.
struct max {
  static constexpr std::string_view name = "max";
  static constexpr bool commutative = true;

  TUTTI_CALLS_ANY
  template <class T>
    requires requires(T const& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    if constexpr (std::floating_point<T>) return ((a < b) | (b != b)) ? b : a;
    else return a < b ? b : a;
  }
  template <class T>
    requires std::numeric_limits<T>::is_specialized
  TUTTI_HOST_DEVICE static constexpr T identity() {
    constexpr T value = detail::least<T>;
    return value;
  }
};

// The element located{value, index} with the greatest value; among equal values the one with the least index (as
// MPI_MAXLOC). If any value is NaN, the result is the NaN with the least index.
//
//   auto best = tutti::all_reduce(comm, tutti::located{score, comm.rank()}, tutti::argmax{});
//   if (comm.rank() == best.index) save(model);
struct max_location {
  static constexpr std::string_view name = "max_location";
  static constexpr bool commutative = true;

  template <class T>
  TUTTI_HOST_DEVICE constexpr located<T> operator()(located<T> const& a, located<T> const& b) const {
    return detail::replaces(b, a, a.value < b.value) ? b : a;
  }
  template <class Located>
  TUTTI_HOST_DEVICE static constexpr Located identity() {
    return {max::identity<decltype(Located::value)>(), detail::nowhere};
  }
};

// The same for the least value (as MPI_MINLOC).
struct min_location {
  static constexpr std::string_view name = "min_location";
  static constexpr bool commutative = true;

  template <class T>
  TUTTI_HOST_DEVICE constexpr located<T> operator()(located<T> const& a, located<T> const& b) const {
    return detail::replaces(b, a, b.value < a.value) ? b : a;
  }
  template <class Located>
  TUTTI_HOST_DEVICE static constexpr Located identity() {
    return {min::identity<decltype(Located::value)>(), detail::nowhere};
  }
};

// The greatest value with its index, see max_location.
using argmax = max_location;

// The least value with its index, see min_location.
using argmin = min_location;

}  // namespace tutti
