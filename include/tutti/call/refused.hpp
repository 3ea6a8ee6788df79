// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters and result of functions that are chosen where no other fits, and refuse the call with a sentence.
#pragma once

#include <type_traits>

#include "tutti/call/accepted.hpp"

namespace tutti::detail {

template <class T>
consteval void refuse_name() {
  static_assert(never<T>,
                "this is the name of several functions, or of a function template; pass an operation such as "
                "tutti::max{}, or a lambda that calls the function");
}

// A parameter that accepts any argument, but worse than any parameter of a collective: a function of such parameters is
// called only if no other fits. Its constructors refuse arguments that are wrong wherever they stand.
template <bool IsFirst>
struct any_argument {
  any_argument() = default;
  template <class T>
  any_argument(T&&) {  // NOLINT(bugprone-forwarding-reference-overload): it is never copied
    if constexpr (IsFirst) static_cast<void>(expect_communicator<T>());
    else static_cast<void>(expect_argument<T>());
  }

  template <class First, class Second, class... Others>
  any_argument(First&&, Second&&, Others&&...) {
    static_assert(never<First>, "a list in braces has no type; pass an array, such as std::array{1.f, 2.f}");
  }

  // The name of a template converts to several of these, of which one that is not a template is preferred.
  any_argument(int const& (*)(int const&, int const&)) { refuse_name<any_argument>(); }
  any_argument(int (*)(int const&, int const&)) { refuse_name<any_argument>(); }
  template <class T = void>
  any_argument(float const& (*)(float const&, float const&)) {
    refuse_name<T>();
  }
  template <class T = void>
  any_argument(double const& (*)(double const&, double const&)) {
    refuse_name<T>();
  }
  template <class T = double>
  any_argument(T (*)(T, T)) {
    refuse_name<T>();
  }
  // tutti::async itself, or tutti::prepared
  any_argument(refused_call<void> (*)(any_argument)) { static_cast<void>(expect_communicator<any_argument>()); }
};

// What such a call returns: anything, so that nothing else is wrong with it. Its destructor is compiled after the
// constructors of the arguments, which may have a better sentence.
template <class T>
struct refused_call {
  ~refused_call() {
    static_assert(!is_communicator<T>,
                  "this communicator is a temporary, which is gone when a call that was started needs it; keep it in a "
                  "variable");
    static_assert(is_communicator<T> || never<T>,
                  "no form of this call takes these arguments; the order is: communicator, arrays (each knows its type "
                  "and size; pass part of one as std::span(first, count)), operation, root, options");
  }
  template <class Result>
  operator Result() const;
};

}  // namespace tutti::detail
