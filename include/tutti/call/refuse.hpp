// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How calls are refused: with a sentence of the compiler, or with error: bad_argument.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <ranges>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

template <class...>
inline constexpr bool never = false;

// What a refused call returns: anything, so that nothing else is wrong with it, but it cannot be destroyed. After that error, nvcc would
// not come to the sentence.
struct refused_call {
#if !defined(__CUDACC__)
  ~refused_call() = delete;  // this call is refused; a static_assert says why
#endif
  template <class Result>
  operator Result() const;
};

template <class Comm>
consteval void refuse_const_communicator() {
  static_assert(never<Comm>,
                "this communicator is const, and every call changes its communicator; pass one that is not");
}

template <class Ranks>
consteval void refuse_form_on_devices() {
  static_assert(
      never<Ranks>,
      "no form of this call for ranks of devices takes these arguments; pass arrays of device memory that know their "
      "type and size, such as thrust::device_vector or std::span(pointer, count) (to a cuda_local, a list with one "
      "for each rank), then the operation, the root and {.stream = stream}; results go to arrays, and only the "
      "ranks of tutti::on take lists of arrays and messages");
}

template <class T>
consteval bool expect_element() {
  if constexpr (element<T>) return true;
  else if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>)
    static_assert(
        never<T>,
        "a pointer cannot be an element, because it means nothing on another rank; send what it points to, or an "
        "index");
  else if constexpr (is_reference_wrapper<T>)
    static_assert(never<T>, "a std::reference_wrapper means nothing on another rank; pass what its get() returns");
  else if constexpr (std::input_or_output_iterator<T>)
    static_assert(never<T>,
                  "an iterator means nothing on another rank; pass the elements that it refers to: "
                  "std::ranges::subrange(first, last), or std::span(first, count)");
  else if constexpr (is_a<T, std::atomic>)
    static_assert(never<T>, "a std::atomic cannot be an element; send the value that its load() returns");
  else if constexpr (requires(T const& t) { t.get(), *t; } || requires(T const& t) { t.get(), t[0]; })
    static_assert(never<T>,
                  "a smart pointer does not say how many elements it points to, and cannot be an element itself; pass "
                  "std::span(pointer.get(), count)");
  else if constexpr (std::ranges::enable_view<T>)
    static_assert(
        never<T>,
        "a view such as std::span or std::string_view cannot be an element, because it refers to memory of its own "
        "rank; send the elements that it refers to");
  else if constexpr (std::ranges::contiguous_range<T> && !requires(T const& t) { t.c_str(); })
    static_assert(
        never<T>,
        "an array of arrays is taken by all_reduce alone, which combines each of them in place and takes no output; "
        "for other calls put a call for each of the arrays into a tutti::batch");
  else if constexpr (std::is_same_v<T, bool&> || std::is_reference_v<T> || std::is_const_v<T>)
    static_assert(never<T>, "elements are objects that are neither const nor references");
  else
    static_assert(
        never<T>,
        "elements travel as their bytes, so their type must be trivially copyable, or a std::pair or std::tuple "
        "of such types; for others include tutti/objects.hpp and call broadcast_object, gather_object, ...");
  return false;
}

// The argument of an allocate whose elements are refused.
template <class T>
struct count_of_refused {
  count_of_refused(std::size_t) { static_cast<void>(expect_element<T>()); }
};

// The rank and the number of ranks of a communicator that was moved from. They fail the checks that calls make anyway, so
// refusing it costs usable communicators nothing.
inline constexpr int moved_from = -2;

[[noreturn, gnu::cold]] void refuse(int rank, std::string_view what, std::string_view way_out,
                                    std::source_location where);
[[noreturn, gnu::cold]] void refuse_negative_timeout(int rank, std::source_location where);

// The members of a group: a list in braces, two iterators, or a range of integers.
struct rank_list : std::vector<int> {
  rank_list(std::initializer_list<int> list) : vector(list) {}
  template <std::input_iterator First>
  rank_list(First first, First last) : rank_list(std::ranges::subrange(first, last)) {}
  template <std::ranges::input_range Range>
  rank_list(Range&& list) {
    using value = std::ranges::range_value_t<Range>;
    if constexpr (std::integral<value> && sizeof(value) > 1)
      for (value const rank : list)  // one beyond int becomes another that no communicator has
        push_back(std::in_range<int>(rank) ? static_cast<int>(rank) : std::numeric_limits<int>::max());
    else
      static_assert(never<value>,
                    "the members of a group are a list of ranks, such as a std::vector<int>, not a flag for each rank");
  }
};

[[gnu::cold]] void check_members(std::vector<int> const& members, int rank, int ranks, std::source_location where);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/call/refuse_impl.hpp"
#endif
