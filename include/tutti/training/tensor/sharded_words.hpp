// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words of a vocabulary, or classes, that are divided among ranks: checks, and those that this rank has.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "tutti/core/partition.hpp"

namespace tutti::detail {

// Throws bad_argument if an array does not have rows x columns elements.
void expect_size(std::size_t size, std::size_t rows, std::size_t columns, std::string_view what, int rank,
                 std::source_location where);
// `what`: "token", of "words" for example.
[[noreturn]] void refuse_word(std::string_view what, std::size_t at, std::string const& word, std::size_t words,
                              std::string_view of, int rank, std::source_location where);

// Of an array of any integers.
template <std::ranges::contiguous_range Words>
  requires std::integral<std::ranges::range_value_t<Words>>
std::span<std::ranges::range_value_t<Words> const> span_of_words(Words const& all) {
  return {std::ranges::data(all), std::ranges::size(all)};
}

// Throws bad_argument if one of them is not from 0 to words - 1.
template <std::integral I>
void expect_words(std::span<I const> all, std::size_t words, std::string_view what, std::string_view of, int rank,
                  std::source_location where) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] < I{0} || static_cast<std::uintmax_t>(all[i]) >= words)
      refuse_word(what, i, std::to_string(all[i]), words, of, rank, where);
}

// Calls f(i, k) for each i that is word k of this rank's own.
template <std::integral I, class F>
void for_each_own_word(extent own, std::span<I const> all, F&& f) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const word = static_cast<std::size_t>(all[i]);
    if (word >= own.begin && word < own.end()) f(i, word - own.begin);
  }
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/tensor/sharded_words_impl.hpp"
#endif
