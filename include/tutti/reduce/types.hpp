// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which types can be elements of a message, and the type in which a reduction combines each.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tutti/core/is_a.hpp"
#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti {
namespace detail {

// std::reference_wrapper. Naming it takes <functional>, which would cost every user a quarter of a second of compile time.
template <class T>
concept is_reference_wrapper = requires(T const& t) {
  { t.get() } -> std::same_as<typename T::type&>;
};

// Refers to memory that exists on one rank only.
template <class T>
concept refers = std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T> ||
                 std::ranges::enable_view<T> || is_reference_wrapper<T> || std::input_or_output_iterator<T>;

// std::pair and std::tuple have assignment operators of their own, so they are not trivially copyable, but they consist
// of their members only.
template <class T>
inline constexpr bool travels_as_bytes = std::is_object_v<T> && std::is_trivially_copyable_v<T> &&
                                         std::is_same_v<T, std::remove_cv_t<T>> && !refers<T> && !is_a<T, std::atomic>;
template <class A, class B>
inline constexpr bool travels_as_bytes<std::pair<A, B>> = travels_as_bytes<A> && travels_as_bytes<B>;
template <class... Members>
inline constexpr bool travels_as_bytes<std::tuple<Members...>> = (travels_as_bytes<Members> && ...);

template <class T>
inline constexpr bool has_members = false;
template <class A, class B>
inline constexpr bool has_members<std::pair<A, B>> = true;
template <class... Members>
inline constexpr bool has_members<std::tuple<Members...>> = true;

}  // namespace detail

// An element travels as its bytes: a trivially copyable type, or a std::pair or std::tuple of such types, that is neither
// const nor a reference. Pointers, iterators, views and atomics do not compile: their bytes mean nothing on another rank.
template <class T>
concept element = detail::travels_as_bytes<T>;

// The policy of a storage type. Contributions are converted to the accumulator, combined there, and rounded to the
// storage type once, when the result is stored. Specialise it for a storage type of your own; both static_casts must
// exist:
//
//   template <> struct tutti::element_traits<fixed8> { using accumulator = int; };
template <class T>
struct element_traits {
  using accumulator = T;
};

namespace detail {

// Base of element_traits for types whose accumulator is float.
struct combined_in_float {
  using accumulator = float;
};

}  // namespace detail

template <>
struct element_traits<half> : detail::combined_in_float {};
template <>
struct element_traits<bfloat16> : detail::combined_in_float {};
template <>
struct element_traits<float8_e4m3> : detail::combined_in_float {};
template <>
struct element_traits<float8_e5m2> : detail::combined_in_float {};

// A value and where it was found: the element of argmin and argmax.
template <class T>
struct located {
  T value{};
  std::int64_t index = 0;

  friend constexpr bool operator==(located const&, located const&) = default;
};
template <class T>
located(T, std::int64_t) -> located<T>;

static_assert(element<half> && element<bfloat16> && element<located<double>> && element<std::pair<int, float>> &&
              !element<float const> && !element<float&> && !element<int*> && !element<std::atomic<int>>);

}  // namespace tutti
