// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The types and operations that tests cover: the list of element types, the operations that apply to each, and values
// that make results exact in any order of combination. To test one more type or operation, add it here.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tutti/reduce/ops.hpp"

namespace tutti::testing {

// The map x -> a x + b modulo 2^32. Composition is associative and not commutative, and exact.
struct affine {
  std::uint32_t a = 1;
  std::uint32_t b = 0;

  friend constexpr bool operator==(affine const&, affine const&) = default;
};

// First f, then g.
struct compose {
  static constexpr std::string_view name = "compose";

  TUTTI_HOST_DEVICE constexpr affine operator()(affine const& f, affine const& g) const {
    return {g.a * f.a, g.a * f.b + g.b};
  }
  template <std::same_as<affine> T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    return {};
  }
};

// A user's struct of 24 bytes, each member reduced in its own way.
struct summary {
  std::int64_t count = 0;
  double greatest = -1e300;
  std::uint64_t digest = 0;

  friend constexpr bool operator==(summary const&, summary const&) = default;
};
struct summarise {
  static constexpr bool commutative = true;

  TUTTI_HOST_DEVICE constexpr summary operator()(summary const& a, summary const& b) const {
    return {a.count + b.count, a.greatest < b.greatest ? b.greatest : a.greatest, a.digest ^ b.digest};
  }
  template <std::same_as<summary> T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    return {};
  }
};

template <class... T>
struct type_list {};

using integer_types = type_list<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                                std::int64_t, std::uint64_t>;
using floating_types = type_list<float, double, long double, half, bfloat16, float8_e4m3, float8_e5m2>;
using other_types =
    type_list<std::complex<float>, std::complex<double>, bool, located<float>, located<std::int32_t>, affine, summary>;

template <class... A, class... B>
constexpr type_list<A..., B...> operator+(type_list<A...>, type_list<B...>) {
  return {};
}
using element_types = decltype(integer_types{} + floating_types{} + other_types{});

template <class T>
concept float8 = std::same_as<T, float8_e4m3> || std::same_as<T, float8_e5m2>;
template <class T>
concept narrow_float = std::same_as<T, half> || std::same_as<T, bfloat16> || float8<T>;

// Calls f.operator()<T>() for each type of the list.
template <class... T, class F>
void for_each_type(type_list<T...>, F&& f) {
  (f.template operator()<T>(), ...);
}

// The operations that are legal on T, as a tuple.
template <class T>
constexpr auto operations_on() {
  if constexpr (std::same_as<T, bool>) {
    return std::tuple{logical_and{}, logical_or{}, logical_xor{}, sum{},    product{},
                      min{},         max{},        bit_and{},     bit_or{}, bit_xor{}};
  } else if constexpr (std::integral<T>) {
    return std::tuple{sum{},    product{}, min{},         max{},        mean{},        bit_and{},
                      bit_or{}, bit_xor{}, logical_and{}, logical_or{}, logical_xor{}, premultiplied_sum{3}};
  } else if constexpr (std::floating_point<T> || narrow_float<T>) {
    return std::tuple{
        sum{}, product{}, min{}, max{}, mean{}, logical_and{}, logical_or{}, logical_xor{}, premultiplied_sum{0.5f}};
  } else if constexpr (std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>) {
    return std::tuple{sum{}, product{}, mean{}, premultiplied_sum{typename T::value_type{2}}};
  } else if constexpr (std::same_as<T, affine>) {
    return std::tuple{compose{}};
  } else if constexpr (std::same_as<T, summary>) {
    return std::tuple{summarise{}};
  } else {
    return std::tuple{max_location{}, min_location{}};
  }
}

// Calls f(op) for each operation that is legal on T.
template <class T, class F>
void for_each_operation(F&& f) {
  std::apply([&](auto const&... op) { (f(op), ...); }, operations_on<T>());
}

// The place of T in a list.
template <class T, class... All>
constexpr std::size_t place_in(type_list<All...>) {
  std::size_t place = 0;
  static_cast<void>((... && (!std::same_as<T, All> && ++place > 0)));
  return place;
}

// Two of the operations that apply to T, as a tuple, where all of them would take minutes to compile. Types take turns,
// so that every operation occurs.
template <class T>
constexpr auto two_operations_on() {
  constexpr auto all = operations_on<T>();
  constexpr std::size_t count = std::tuple_size_v<decltype(operations_on<T>())>;
  constexpr std::size_t first = place_in<T>(element_types{}) % count, second = (first + count / 2) % count;
  if constexpr (first == second) return std::tuple{std::get<first>(all)};
  else return std::tuple{std::get<first>(all), std::get<second>(all)};
}

// Calls f(op) for each of them.
template <class T, class F>
void for_two_operations(F&& f) {
  std::apply([&](auto const&... op) { (f(op), ...); }, two_operations_on<T>());
}

// A number for each pair, without a pattern that a misplaced chunk could keep.
constexpr std::uint64_t scramble(std::uint64_t rank, std::uint64_t index) {
  std::uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The contribution of `rank` as element `index`. Integers take all values, since they wrap. Floating-point values are
// small powers of two of either sign, so that sums and products over 33 ranks fit the mantissa and the exponent of T
// and every order of combination gives the same bits; in 8 bits, most of them are 0.
template <class T>
constexpr T make_value(int rank, std::size_t index) {
  std::uint64_t const x = scramble(static_cast<std::uint64_t>(rank), index);
  int const sign = (x & 1) != 0 ? -1 : 1, two_bits = static_cast<int>((x >> 8) & 3);
  if constexpr (std::same_as<T, bool>) return (x & 2) != 0;
  else if constexpr (std::integral<T>) return static_cast<T>(x >> 5);
  else if constexpr (std::same_as<T, half>)
    return half(static_cast<float>(sign) * (two_bits != 0 ? 1.0f : rank % 2 != 0 ? 0.5f : 2.0f));
  else if constexpr (std::same_as<T, bfloat16>) return bfloat16(static_cast<float>(sign * (1 << (two_bits % 3))));
  else if constexpr (float8<T>) return T(rank % 5 == static_cast<int>(index % 5) ? static_cast<float>(sign) : 0.0f);
  else if constexpr (std::floating_point<T>) return static_cast<T>(sign * (1 << two_bits));
  else if constexpr (std::same_as<T, affine>)
    return {static_cast<std::uint32_t>(x) | 1, static_cast<std::uint32_t>(x >> 32)};
  else if constexpr (std::same_as<T, summary>) return {two_bits, static_cast<double>(sign * (1 << two_bits)), x};
  else if constexpr (requires { T{}.index; }) return {static_cast<decltype(T::value)>(two_bits % 3), rank};
  else return T(static_cast<typename T::value_type>(two_bits % 3 - 1), static_cast<typename T::value_type>(sign));
}

// Whether two values have the same meaningful bits: -0 is not 0, a NaN equals itself, padding does not count. Only
// complex numbers are compared by value, because the sign of a zero in their product depends on the order of
// combination.
template <class T>
bool same_bits(T const& a, T const& b) {
  if constexpr (requires { a.index; }) return same_bits(a.value, b.value) && a.index == b.index;
  else if constexpr (requires { a.real(); }) return a == b;
  else return std::memcmp(&a, &b, std::same_as<T, long double> && sizeof(T) == 16 ? 10 : sizeof(T)) == 0;
}

}  // namespace tutti::testing
