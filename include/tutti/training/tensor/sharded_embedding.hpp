// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sharded_embedding: rows of a table whose rows are divided among ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <source_location>
#include <span>

#include "tutti/training/tensor/sharded_dimension.hpp"
#include "tutti/training/tensor/sharded_words.hpp"
#include "tutti/training/tensor/tensor_parallel.hpp"

namespace tutti::training {

// A table of words x features, row-major, of which rank r has the rows part(words, p, r). Every rank looks up the words
// of the same tokens: rows of others count as zeros, and the sum over the ranks has all rows.
//
// Each rank passes    `tokens`, integers from 0 to words - 1, the same on all ranks; its rows of the table; `out` and
//                     its gradient, tokens x features; all row-major
// Bits                those of a single process, except that -0 becomes 0: a sum of one value and zeros is exact
// Throws              error: bad_argument for a token that is no word, or an array of another size, before any
//                     communication; and as all_reduce
// Cost                forward an all_reduce of tokens x features elements; backward nothing
// Source              Shoeybi et al. 2019, see tensor_parallel.hpp
//
//   sharded_embedding const embedding{.words = 50257, .features = 768};
//   embedding.forward(group, tokens, table, out);
//   embedding.backward(group, tokens, out_gradient, table_gradient);   // adds
struct sharded_embedding {
  std::size_t words, features;

  template <class Comm, std::ranges::contiguous_range Tokens, std::ranges::contiguous_range Table,
            std::ranges::contiguous_range Out>
  auto forward(Comm&& group, Tokens const& tokens, Table const& table, Out&& out,
               std::source_location where = std::source_location::current()) const {
    look_up(group, tokens, table, out, where);
    return reduce_from_group{}.forward(group, out, where);
  }

  // The forward pass without the sum, which another communication may take on: reduce_scatter_sequence, for example.
  template <class Comm, std::ranges::contiguous_range Tokens, std::ranges::contiguous_range Table,
            std::ranges::contiguous_range Out>
  void look_up(Comm const& group, Tokens const& tokens, Table const& table, Out&& out,
               std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<Table>;
    std::span<T const> const rows(table);
    std::span<T> const to(out);
    extent const own = expect_sizes(group, tokens, rows.size(), to.size(), where);
    std::ranges::fill(to, T{});
    detail::for_each_own_word(own, detail::span_of_words(tokens), [&](std::size_t i, std::size_t row) {
      std::ranges::copy(rows.subspan(row * features, features), to.subspan(i * features).begin());
    });
  }

  // Adds the gradient of each token to the row of its word, in the order of tokens.
  template <class Comm, std::ranges::contiguous_range Tokens, std::ranges::contiguous_range In,
            std::ranges::contiguous_range Table>
  void backward(Comm const& group, Tokens const& tokens, In const& gradient, Table&& table_gradient,
                std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<In>;
    std::span<T const> const from(gradient);
    std::span<T> const rows(table_gradient);
    extent const own = expect_sizes(group, tokens, rows.size(), from.size(), where);
    detail::for_each_own_word(own, detail::span_of_words(tokens), [&](std::size_t i, std::size_t row) {
      for (std::size_t k = 0; k < features; ++k) rows[row * features + k] += from[i * features + k];
    });
  }

 private:
  // The words whose rows this rank has.
  template <class Comm, class Tokens>
  extent expect_sizes(Comm const& group, Tokens const& tokens, std::size_t table, std::size_t out,
                      std::source_location where) const {
    extent const own = part(words, group.size(), group.rank());
    detail::expect_size(table, own.count, features, "this rank's rows of the table", group.rank(), where);
    detail::expect_size(out, std::ranges::size(tokens), features, "the rows of all tokens", group.rank(), where);
    detail::expect_words(detail::span_of_words(tokens), words, "token", "words", group.rank(), where);
    return own;
  }
};

}  // namespace tutti::training
