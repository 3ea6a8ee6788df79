// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words of a vocabulary that is divided among ranks: checks, and those that this rank has.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/core/partition.hpp"

namespace tutti::detail {

// Throws bad_argument if an array does not have rows x columns elements.
void expect_size(std::size_t size, std::size_t rows, std::size_t columns, std::string_view what, int rank,
                 std::source_location where);
[[noreturn]] void refuse_word(std::size_t at, std::string const& word, std::size_t words, int rank,
                              std::source_location where);

// Throws bad_argument if one of them is not from 0 to words - 1.
template <std::integral I>
void expect_words(std::span<I const> all, std::size_t words, int rank, std::source_location where) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::cmp_less(all[i], 0) || std::cmp_greater_equal(all[i], words))
      refuse_word(i, std::to_string(all[i]), words, rank, where);
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
