// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kinds of reductions: an element type, an operation, and a conversion from numbers. Every team does the same work.
#pragma once

#include <cmath>
#include <complex>
#include <string_view>

#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"
#include "tutti/reduce/ops.hpp"

namespace bench {

template <class T>
struct sum_of {
  using element = T;
  static constexpr tutti::sum op{};
  static element make(int n) { return static_cast<T>(static_cast<float>(n)); }
};

struct vector3 {
  double x, y, z;
  friend bool operator==(vector3 const&, vector3 const&) = default;
};
struct add_vectors {
  static constexpr bool commutative = true;
  vector3 operator()(vector3 const& a, vector3 const& b) const { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
};

struct float_sum : sum_of<float> {
  static constexpr std::string_view name = "float";
};
struct bf16_sum : sum_of<tutti::bfloat16> {
  static constexpr std::string_view name = "bf16";
};
struct fp16_sum : sum_of<tutti::half> {
  static constexpr std::string_view name = "fp16";
};
// Few integers are exact in 8 bits: every number becomes 0 or 1.
template <class T>
struct narrow_sum : sum_of<T> {
  static T make(int n) { return sum_of<T>::make(n % 2); }
};
struct e4m3_sum : narrow_sum<tutti::float8_e4m3> {
  static constexpr std::string_view name = "fp8_e4m3";
};
struct e5m2_sum : narrow_sum<tutti::float8_e5m2> {
  static constexpr std::string_view name = "fp8_e5m2";
};
struct complex_sum {
  static constexpr std::string_view name = "complex";
  using element = std::complex<float>;
  static constexpr tutti::sum op{};
  static element make(int n) { return {static_cast<float>(n), static_cast<float>(-2 * n)}; }
};
struct struct_sum {
  static constexpr std::string_view name = "struct";
  using element = vector3;
  static constexpr add_vectors op{};
  static element make(int n) { return {1.0 * n, 2.0 * n, 3.0 * n}; }
};
struct lambda_maximum {
  static constexpr std::string_view name = "lambda";
  using element = float;
  static constexpr auto op = tutti::commutative([](float a, float b) { return std::fabs(a) < std::fabs(b) ? b : a; });
  static element make(int n) { return static_cast<float>(n); }
};

// Element by element, as a user of MPI_Op_create or of Gloo writes it. `out` may be one of the others.
template <class Kind>
void combine(typename Kind::element* out, typename Kind::element const* a, typename Kind::element const* b,
             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(typename Kind::element) < sizeof(float))
      out[i] = typename Kind::element(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    else out[i] = Kind::op(a[i], b[i]);
  }
}

// Calls f(Kind{}) for the kind of this name; false where there is none.
template <class F>
bool with_kind(std::string_view name, F&& f) {
  auto const one = [&]<class Kind>(Kind kind) { return Kind::name == name && (f(kind), true); };
  return one(float_sum{}) || one(bf16_sum{}) || one(fp16_sum{}) || one(e4m3_sum{}) || one(e5m2_sum{}) ||
         one(complex_sum{}) || one(struct_sum{}) || one(lambda_maximum{});
}

}  // namespace bench
