// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arrays of which the state of a training run consists.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti::detail {

// The name of a type of numbers, the same with every compiler: long and long long are both "int64" where they have 8 bytes.
template <class T>
constexpr std::string_view name_of_elements() {
  if constexpr (std::is_same_v<T, half>) return "half";
  else if constexpr (std::is_same_v<T, bfloat16>) return "bfloat16";
  else if constexpr (std::is_same_v<T, float8_e4m3>) return "float8_e4m3";
  else if constexpr (std::is_same_v<T, float8_e5m2>) return "float8_e5m2";
  else if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, char>) return "char";  // signed on some machines
  else if constexpr (std::is_integral_v<T> && sizeof(T) <= 8) {
    constexpr std::string_view with_sign[] = {"int8", "int16", "int32", "int64"},
                               without[] = {"uint8", "uint16", "uint32", "uint64"};
    return (std::is_signed_v<T> ? with_sign : without)[std::bit_width(sizeof(T)) - 1];
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr int digits = std::numeric_limits<T>::digits;
    return digits == 24 ? "float32" : digits == 53 ? "float64" : digits == 64 ? "float80" : "float128";
  } else {
    return "bytes";
  }
}

// Only an x87 number among these types has bytes that mean nothing.
template <class T>
inline constexpr bool has_equal_bytes =
    name_of_elements<T>() == "bytes" ? std::has_unique_object_representations_v<T> : name_of_elements<T>() != "float80";

}  // namespace tutti::detail

namespace tutti::training {

// How the elements of an array are spread over the ranks.
enum class spread : std::uint8_t {
  replicated,  // every rank has all of them, with the same bits: weights, the step, a common random state
  divided,     // each rank has a part, in rank order: optimiser state of sharded training. Parts may differ in size
  per_rank,    // each rank has values of its own: residuals of compressed gradients, a random state of its own
};

// A named array that checkpoints save and restore in place.
struct saved_array {
  std::string name;
  std::span<std::byte> bytes;  // those that this rank has
  std::size_t element_bytes = 1;
  spread how = spread::replicated;
  std::string_view type = "bytes";  // of the elements: "float32", "bfloat16"; "bytes" of those that are no numbers
  bool comparable = false;          // elements have equal bytes if they are equal: they contain no padding
};

// A contiguous range of elements, or one trivially copyable object, of which the array then has one element. It must stay
// where it is while the result is in use. All ranks list arrays of the same names, types and spreads in the same order;
// those that are replicated have equal sizes.
//
//   std::vector const state{replicated("weights", weights), replicated("random", engine), divided("momentum", mine)};
template <class Values>
saved_array save_as(spread how, std::string name, Values& values) {
  auto const save = [&]<class T>(std::span<T> all) -> saved_array {
    return {std::move(name),           std::as_writable_bytes(all), sizeof(T), how, detail::name_of_elements<T>(),
            detail::has_equal_bytes<T>};
  };
  if constexpr (std::ranges::contiguous_range<Values&>) {
    using T = std::remove_reference_t<std::ranges::range_reference_t<Values&>>;
    static_assert(element<T>,
                  "a checkpoint stores the bytes of elements; use elements that are trivially copyable, and "
                  "not const, since load() writes them");
    return save(std::span<T>(std::ranges::data(values), std::ranges::size(values)));
  } else {
    static_assert(std::is_trivially_copyable_v<Values> && !std::is_const_v<Values>,
                  "a checkpoint stores the bytes of an object; use one that is trivially copyable, and not const");
    return save(std::span<Values>(std::addressof(values), 1));
  }
}
// What outlives the expression that names it: a variable, or a view of one such as std::span.
template <class Values>
concept stays = std::is_lvalue_reference_v<Values> || std::ranges::borrowed_range<Values>;

// The same, of which every rank has all elements.
template <stays Values>
saved_array replicated(std::string name, Values&& values) {
  return save_as(spread::replicated, std::move(name), values);
}
// The same, of which every rank has a part.
template <stays Values>
saved_array divided(std::string name, Values&& values) {
  return save_as(spread::divided, std::move(name), values);
}
// The same, of which every rank has values of its own.
template <stays Values>
saved_array per_rank(std::string name, Values&& values) {
  return save_as(spread::per_rank, std::move(name), values);
}

}  // namespace tutti::training
