// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters and result of functions that are chosen where no other fits, and refuse the call with a sentence. Sentences are
// compiled with calls that are made: in a requires expression, a refused call is merely false.
#pragma once

#include "tutti/call/accepted.hpp"
#include "tutti/call/refuse.hpp"

namespace tutti::detail {

// Refuses the form of the call, after the arguments that stand before it, which may have a better sentence.
template <class Form>
struct refused_form {
  refused_form() { Form::template refuse<Form>(); }
};

template <class Form>
struct only_argument;
struct started_form;

// The communicator of a call to which no function fits.
struct communicator_argument {
  template <class Comm>
  communicator_argument(Comm&&) {  // NOLINT(bugprone-forwarding-reference-overload): it is never copied
    static_cast<void>(expect_communicator<Comm>());
  }
  // tutti::async itself, or tutti::prepared
  template <class T = void>
  communicator_argument(refused_call (*)(only_argument<started_form>)) {
    static_cast<void>(expect_communicator<T>());
  }
};
template <class Form>
struct only_argument : communicator_argument {
  using communicator_argument::communicator_argument;
  refused_form<Form> form;
};

// The argument of async and prepared if it is not a communicator in a variable.
struct started_form {
  template <class T>
  static void refuse() {
    static_assert(never<T>,
                  "async and prepared take a communicator that is in a variable; a temporary is gone when a call that "
                  "was started needs it");
  }
};

// The call names an algorithm by a value.
struct argument_of_value {
  template <class Comm>
  argument_of_value(Comm&&) {  // NOLINT(bugprone-forwarding-reference-overload): it is never copied
    static_assert(
        never<Comm>,
        "an algorithm before the arguments is named by its type, as in all_reduce<tutti::ring>(comm, data); a "
        "value of tutti::algorithm_id is an option: {.algorithm = tutti::algorithm_id::ring}");
  }
};

template <class T>
consteval void refuse_name() {
  static_assert(never<T>,
                "this is the name of several functions, or of a function template; pass an operation such as "
                "tutti::max{}, or a lambda that calls the function");
}

// A parameter that accepts any argument, but worse than any parameter of a collective. Its constructors refuse arguments
// that are wrong wherever they stand. A template, so that these are compiled only where they are called.
template <class = void>
struct any_argument {
  any_argument() = default;
  template <class T>
  any_argument(T&&) {  // NOLINT(bugprone-forwarding-reference-overload): it is never copied
    static_cast<void>(expect_argument<T>());
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
};
template <class Form>
struct last_argument : any_argument<> {
  using any_argument<>::any_argument;
  refused_form<Form> form;
};

}  // namespace tutti::detail
