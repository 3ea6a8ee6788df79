// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// std::complex on devices, where its own operators, which are host functions, cannot be called.
#pragma once

#include <concepts>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

// The parts in the layout of std::complex. Sums and products have the same bits, except that a product of infinities may be NaN
// where Annex G of C defines another result.
template <class F>
struct complex_parts {
  using value_type = F;
  F re, im;

  friend TUTTI_HOST_DEVICE constexpr complex_parts operator+(complex_parts a, complex_parts b) {
    return {a.re + b.re, a.im + b.im};
  }
  friend TUTTI_HOST_DEVICE constexpr complex_parts operator*(complex_parts a, complex_parts b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend TUTTI_HOST_DEVICE constexpr complex_parts operator*(F a, complex_parts b) { return {a * b.re, a * b.im}; }
  friend TUTTI_HOST_DEVICE constexpr complex_parts operator*(complex_parts a, F b) { return {a.re * b, a.im * b}; }
  friend TUTTI_HOST_DEVICE constexpr complex_parts operator/(complex_parts a, F b) { return {a.re / b, a.im / b}; }
};

// Recognised by name: <complex> would cost every user a tenth of a second of compile time.
template <class T>
inline constexpr bool complex_of_host = false;
template <template <class> class Complex, std::floating_point F>
inline constexpr bool complex_of_host<Complex<F>> =
    type_name<Complex<F>>().starts_with("std::") && type_name<Complex<F>>().find("complex<") < 12;

// The type by which Op combines elements T on a device: the parts of a complex number, unless Op accepts only the number.
template <class Op, class T>
struct on_device {
  using type = T;
};
template <class Op, class T>
  requires complex_of_host<T> && combines<Op, complex_parts<typename T::value_type>>
struct on_device<Op, T> {
  using type = complex_parts<typename T::value_type>;
  static_assert(sizeof(type) == sizeof(T));
};

template <class Op, class Before, class After, class T>
struct on_device<fused<Op, Before, After>, T> : on_device<Op, T> {};
template <class Op, class T>
using device_form = typename on_device<Op, T>::type;

// Converts a pointer to a source or destination; returns anything else unchanged.
template <class Op, class P>
auto to_device_form(P p) {
  if constexpr (std::is_pointer_v<P>) {
    using T = std::remove_pointer_t<P>;
    using form = device_form<Op, std::remove_const_t<T>>;
    return reinterpret_cast<std::conditional_t<std::is_const_v<T>, form const, form>*>(p);
  } else {
    return p;
  }
}

}  // namespace tutti::detail
