// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compile-time checks of the arguments of a call. Overloads take nearly anything, and these refuse what cannot work: one
// sentence each, which says what is wrong and what to do.
#pragma once

#include <chrono>
#include <concepts>
#include <ranges>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tutti/call/argument.hpp"
#include "tutti/call/arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/call/count_list.hpp"
#include "tutti/call/legal.hpp"
#include "tutti/call/noncontiguous.hpp"
#include "tutti/call/options.hpp"
#include "tutti/call/refuse.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/reduce/extrema.hpp"
#include "tutti/reduce/operation.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti::detail {

// Calls on ranks of devices, which are all on() a device, have overloads of their own.
template <class Comm>
concept host_ranks = !requires(std::remove_reference_t<Comm>& ranks) { ranks.on(); };

template <class R>
inline constexpr bool is_vector_of_bits = std::is_same_v<std::remove_cvref_t<R>, std::vector<bool>>;

template <class R>
inline constexpr bool has_volatile_elements = false;
template <std::ranges::range R>
inline constexpr bool has_volatile_elements<R> =
    std::is_volatile_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

template <class Comm>
consteval bool expect_communicator() {
  using plain = std::remove_cvref_t<Comm>;
  if constexpr (std::is_same_v<plain, refused_call>) return false;
  else if constexpr (is_communicator<plain> && std::is_const_v<std::remove_reference_t<Comm>>)
    refuse_const_communicator<Comm>();
  else if constexpr (!host_ranks<plain>) refuse_form_on_devices<Comm>();
  else if constexpr (!requires { typename plain::transport_type; })
    static_assert(
        never<Comm>,
        "the first argument is not a communicator; pass a tutti::communicator, or tutti::async, tutti::prepared "
        "or a tutti::batch of one (dereference a pointer or an optional)");
  else return true;
  return false;
}

// For calls that cannot be started: what they send depends on what they have received.
template <class Comm>
consteval bool expect_blocking() {
  if constexpr (!expect_communicator<Comm>()) return false;
  else if constexpr (is_communicator<std::remove_cvref_t<Comm>>) return true;
  else {
    static_assert(
        never<Comm>,
        "this form of the call cannot be asynchronous, prepared or part of a batch; call it on the communicator "
        "itself, or use a form that can: recv with an array, isend and irecv in place of send_recv");
    return false;
  }
}

// A pointer to a struct that its library does not define in public.
template <class T>
inline constexpr bool is_handle = std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>> &&
                                  !requires { sizeof(std::remove_pointer_t<T>); };

// An array that can be read.
template <class R>
consteval bool expect_array() {
  using plain = std::remove_cvref_t<R>;
  if constexpr (is_handle<plain>)
    static_assert(
        never<R>,
        "this is a handle of another library, such as MPI; tutti takes the type and the count from the array, "
        "and the operation as an object such as tutti::sum{}");
  else if constexpr (std::is_null_pointer_v<plain>)
    static_assert(never<R>, "a null pointer is not an array; a rank without data passes an empty std::span<T>()");
  else if constexpr (std::is_pointer_v<plain>)
    static_assert(never<R>, "a pointer does not say how many elements there are; pass std::span(pointer, count)");
  else if constexpr (!array_argument<R>)
    static_assert(
        never<R>,
        "this argument is not an array; pass a std::vector, std::array or std::span (of a single value next to an "
        "array: std::span(&value, 1))");
  else if constexpr (is_vector_of_bits<R>)
    static_assert(
        never<R>,
        "std::vector<bool> stores bits, which cannot be sent one by one; use std::vector<char>, or an array of "
        "bool");
  else if constexpr (has_volatile_elements<R>)
    static_assert(never<R>, "the elements are volatile, so they cannot be copied as bytes; pass an array that is not");
  else if constexpr (noncontiguous_array<R>) return expect_element<element_in<R>>();
  else if constexpr (!std::ranges::random_access_range<R>)
    static_assert(never<R>,
                  "the elements of this range can only be reached one after another; copy them to a std::vector, and "
                  "pass that (a std::map: all_reduce_map or broadcast_object)");
  else if constexpr (!std::ranges::sized_range<R>)
    static_assert(never<R>, "this range does not know its size; pass std::span(first, count)");
  else return expect_element<element_in<R>>();
  return false;
}

// An array whose elements follow each other in memory.
template <class R>
consteval bool expect_contiguous() {
  if constexpr (!expect_array<R>()) return false;
  else if constexpr (std::ranges::contiguous_range<R>) return true;
  else {
    static_assert(never<R>,
                  "this array is not a contiguous range, which lists of arrays need; list std::vector, std::array or "
                  "std::span(data, count)");
    return false;
  }
}

// The same, which is written to.
template <class R>
consteval bool expect_output() {
  if constexpr (!expect_array<R>()) return false;
  else if constexpr (std::is_convertible_v<R, char const*> && !can_be_written<R>)
    static_assert(never<R>,
                  "an operation is an object such as tutti::max{}, not a name; text cannot be an output either");
  else if constexpr (!can_be_written<R>)
    static_assert(never<R>,
                  "the output is const, or its elements are computed on demand; pass an array that can be written to");
  else if constexpr (!outlives_call<R>)
    static_assert(never<R>, "the output is a temporary, so its contents would be lost; pass a variable or a std::span");
  else return true;
  return false;
}

template <class R>
consteval bool expect_array_or_element() {
  if constexpr (array_argument<R>) return expect_array<R>();
  else return expect_element<element_in<R>>();
}

// A temporary input is read by a blocking call alone.
template <class Comm, class R>
consteval bool expect_input() {
  if constexpr (!expect_array<R>()) return false;
  else if constexpr (is_communicator<std::remove_cvref_t<Comm>> || outlives_call<R>) return true;
  else {
    static_assert(
        never<R>,
        "the input is a temporary, which is gone when a call that was started reads it; keep it in a variable "
        "until the call has ended");
    return false;
  }
}

// A root, and the place of a call, where {} stands for an array or a list instead.
class given_root {
 public:
  template <std::convertible_to<int> Rank>
  constexpr given_root(Rank const& rank) : rank_(static_cast<int>(rank)) {}
  constexpr operator int() const { return rank_; }

 private:
  int rank_;
};
struct call_site : std::source_location {
  constexpr call_site(std::source_location where) : source_location(where) {}
};

// An argument whose type belongs to no parameter of a call, or to another one.
template <class T>
consteval bool expect_argument() {
  using plain = std::remove_cvref_t<T>;
  if constexpr (is_communicator<plain>) static_assert(never<T>, "the communicator is the first argument of a call");
  else if constexpr (std::is_same_v<plain, algorithm_id> || listed<plain, algorithms> || std::is_same_v<plain, native>)
    static_assert(never<T>,
                  "an algorithm is named by its type before the arguments, as in all_reduce<tutti::ring>(comm, data), "
                  "or in the options: {.algorithm = tutti::algorithm_id::ring}");
  else if constexpr (std::is_convertible_v<plain, std::chrono::nanoseconds>)
    static_assert(never<T>, "a time limit is an option; pass {.timeout = 5s}");
  else if constexpr (std::is_same_v<plain, options>)
    static_assert(never<T>, "the options are the last argument of a call, after the operation and the root");
  else if constexpr (std::is_enum_v<plain>)
    static_assert(never<T>, "roots, ranks and tags are of type int; convert this enumerator to int");
  else if constexpr (std::is_pointer_v<plain> || std::is_null_pointer_v<plain>) return expect_array<T>();
  else return true;
  return false;
}

// Op is void where nothing is combined.
template <class Op, class T>
consteval bool expect_operation() {
  using A = typename element_traits<T>::accumulator;
  if constexpr (std::is_void_v<Op>) return true;
  else if constexpr (operation<Op, T>) {
    using result = std::invoke_result_t<Op const&, accumulator_for<Op, T> const&, accumulator_for<Op, T> const&>;
    static_assert(!std::is_integral_v<T> || !std::is_floating_point_v<result>,
                  "this operation returns a floating-point number, which would be truncated to an integer at every "
                  "step; let it return the type of the elements");
    static_assert(
        !std::is_floating_point_v<T> || !std::is_same_v<result, bool>,
        "this operation returns a bool, as a comparison does; op(a, b) must return the combination of a and b");
    static_assert(
        !is_standard(type_name<Op>(), {"less", "less_equal", "greater", "greater_equal", "equal_to", "not_equal_to"}),
        "this object compares two elements, but an operation combines them; pass tutti::min{}, tutti::max{} or "
        "a lambda that returns an element");
    return true;
  } else if constexpr (std::is_arithmetic_v<Op>)
    static_assert(never<Op>,
                  "an operation is expected here, but this is a number; a call on a value returns its result: total = "
                  "tutti::all_reduce(comm, mine)");
  else if constexpr (array_argument<Op>)
    static_assert(
        never<Op>,
        "an operation is expected here, but this is an array or a pointer; pass an object such as tutti::sum{}");
  else if constexpr (std::is_function_v<Op>)
    static_assert(never<Op>,
                  "a function cannot be stored as an operation; pass a lambda that calls it, which the compiler can "
                  "inline, or its address");
  else if constexpr (!expect_argument<Op>()) return false;
  else if constexpr (!std::is_copy_constructible_v<Op>)
    static_assert(never<Op>, "an operation must be copyable, because calls that are started keep a copy");
  else if constexpr (std::is_invocable_v<Op const&, T const&, T const&> ||
                     std::is_invocable_v<Op const&, A const&, A const&>)
    static_assert(never<Op>,
                  "this operation does not return an element; op(a, b) must return the combination of a and b");
  else if constexpr (is_a<T, located> && (std::is_same_v<Op, min> || std::is_same_v<Op, max>))
    static_assert(never<Op, T>,
                  "to find the least or greatest value with its index, as MPI_MINLOC and MPI_MAXLOC do, pass "
                  "tutti::argmin{} or tutti::argmax{}");
  else if constexpr (std::is_same_v<Op, argmin> || std::is_same_v<Op, argmax>)
    static_assert(never<Op, T>,
                  "tutti::argmin and tutti::argmax combine values with their indices; pass "
                  "tutti::located{value, comm.rank()}, or an array of tutti::located");
  else
    static_assert(
        never<Op, T>,
        "this operation cannot combine these elements; it must be callable, also as a const object, as op(a, b) "
        "with two const elements, and return their combination (tutti::sum needs a + b: for a struct pass an operation "
        "of your own, such as a lambda; the elements of a std::array are its values: to combine whole arrays, pass "
        "std::span(&array, 1))");
  return false;
}

template <class In, class Out>
consteval bool expect_same_elements() {
  if constexpr (std::is_same_v<element_in<In>, element_in<Out>>) return true;
  else {
    static_assert(never<In, Out>, "input and output have different element types; pass arrays of one type");
    return false;
  }
}

// A call of an input and an output array.
template <class Comm, class In, class Out, class Op = void>
consteval bool accepts() {
  if constexpr (expect_communicator<Comm>())
    if constexpr (expect_input<Comm, In>())
      if constexpr (expect_output<Out>())
        if constexpr (expect_same_elements<In, Out>()) return expect_operation<Op, element_in<In>>();
  return false;
}

// A call that replaces its array.
template <class Comm, class InOut, class Op = void>
consteval bool accepts_in_place() {
  return accepts<Comm, InOut, InOut, Op>();
}

// A call that returns its result.
template <class Comm, class Data, class Op = void>
consteval bool accepts_by_value() {
  if constexpr (expect_communicator<Comm>()) {
    if constexpr (!is_communicator<std::remove_cvref_t<Comm>>)
      static_assert(
          never<Comm>,
          "a call that is started, prepared or in a batch cannot return its result; pass arrays that stay until it "
          "has ended, such as std::span(&value, 1)");
    else if constexpr (expect_array_or_element<Data>()) return expect_operation<Op, element_in<Data>>();
  }
  return false;
}

// As accepts_by_value, of an array alone.
template <class Comm, class Data, class Op = void>
consteval bool accepts_array_by_value() {
  if constexpr (!expect_communicator<Comm>() || !expect_array<Data>()) return false;
  else return accepts_by_value<Comm, Data, Op>();
}

}  // namespace tutti::detail
