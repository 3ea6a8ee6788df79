// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The elements of an argument, and results that a call returns.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/argument.hpp"
#include "tutti/call/noncontiguous.hpp"

namespace tutti::detail {

// The elements of an array, or a value as an array of one: a std::span if they are contiguous. Inlined for the reason that
// arrays_for gives.
template <class R>
[[gnu::always_inline]] inline auto elements(R& data) {
  if constexpr (std::ranges::contiguous_range<R>) return std::span(std::ranges::data(data), std::ranges::size(data));
  else if constexpr (noncontiguous_array<R>) return noncontiguous(data);
  else return std::span(&data, 1);
}
template <class R>
[[gnu::always_inline]] inline auto inputs(R& data) {
  if constexpr (noncontiguous_array<R>) return noncontiguous(data);
  else return std::span<element_in<R> const>(elements(data));
}

// An array of `count` elements that fill(span) writes. allocating(make) returns make(), which allocates it.
template <class T, class Fill, class Allocating>
std::vector<T> filled(std::size_t count, Fill&& fill, Allocating&& allocating) {
  static_assert(
      std::default_initializable<T>,
      "results in a std::vector are default-constructed and then overwritten; give the element type a default "
      "constructor, or pass an output array");
  if constexpr (std::is_same_v<T, bool>) {
    auto const all = allocating([&] { return std::make_unique<T[]>(count); });
    fill(std::span(all.get(), count));
    return std::vector<T>(all.get(), all.get() + count);
  } else {
    std::vector<T> all = allocating([&] { return std::vector<T>(count); });
    fill(std::span(all));
    return all;
  }
}
template <class T, class Fill>
std::vector<T> filled(std::size_t count, Fill&& fill) {
  return filled<T>(count, fill, [](auto make) { return make(); });
}

// A copy of `data` that change(span) has changed: a value, or for an array a std::vector.
template <class Data, class Change>
auto changed(Data&& data, Change&& change) {
  using T = element_in<Data>;
  if constexpr (!array_argument<Data>) {
    T out = std::forward<Data>(data);
    change(std::span(&out, 1));
    return out;
  } else if constexpr (std::is_same_v<Data, std::vector<T>>) {
    std::vector<T> out = std::forward<Data>(data);
    change(std::span(out));
    return out;
  } else {
    auto from = inputs(data);
    return filled<T>(from.size(), [&](std::span<T> out) {
      if constexpr (noncontiguous_array<Data>) from.copy_to(out.data());
      else std::ranges::copy(from, out.begin());
      change(out);
    });
  }
}

}  // namespace tutti::detail
