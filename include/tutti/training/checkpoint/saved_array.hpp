// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arrays of which the state of a training run consists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/reduce/types.hpp"

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
};

// A contiguous range of elements, or one trivially copyable object, of which the array then has one element. It must stay
// where it is while the result is in use. All ranks list arrays of the same names, types and spreads in the same order;
// those that are replicated have equal sizes.
//
//   std::vector const state{replicated("weights", weights), replicated("random", engine), divided("momentum", mine)};
template <class Values>
saved_array save_as(spread how, std::string name, Values& values) {
  if constexpr (std::ranges::contiguous_range<Values&>) {
    using T = std::remove_reference_t<std::ranges::range_reference_t<Values&>>;
    static_assert(element<T>,
                  "a checkpoint stores the bytes of elements; use elements that are trivially copyable, and "
                  "not const, since load() writes them");
    std::span<T> const all(std::ranges::data(values), std::ranges::size(values));
    return {std::move(name), std::as_writable_bytes(all), sizeof(T), how};
  } else {
    static_assert(std::is_trivially_copyable_v<Values> && !std::is_const_v<Values>,
                  "a checkpoint stores the bytes of an object; use one that is trivially copyable, and not const");
    return {std::move(name), std::as_writable_bytes(std::span<Values>(std::addressof(values), 1)), sizeof(Values), how};
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
