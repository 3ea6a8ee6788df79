// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sharded_dimension: the dimension of an array that is divided among ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/core/partition.hpp"

namespace tutti {

namespace training {
struct sharded_dimension;
}
namespace detail {

// Throws bad_argument if these are not the sizes of the whole array and of this rank's part, or if there is no such rank.
void expect_sharded(training::sharded_dimension const& along, std::size_t whole, std::size_t part, int ranks, int rank,
                    std::source_location where);

}  // namespace detail

namespace training {

// An array of outer x extent x inner elements, row-major, whose middle dimension is divided among ranks: rank r of p has
// outer x part(extent, p, r).count x inner elements, row-major too. Parts differ by at most one; the larger ones come first,
// and those of the last ranks are empty if there are more ranks than elements.
//
//   auto const by_rows = sharded_dimension::rows(64, 512);        // of a matrix of 64 rows, 512 columns
//   auto const by_columns = sharded_dimension::columns(64, 512);
//   sharded_dimension const by_heads{.outer = 64 * 3, .extent = heads, .inner = width};  // of 64 x 3 x heads x width
//   by_columns.copy_part(weights, mine, group.size(), group.rank());
struct sharded_dimension {
  std::size_t outer = 1, extent = 0, inner = 1;

  static constexpr sharded_dimension rows(std::size_t rows, std::size_t columns) { return {1, rows, columns}; }
  static constexpr sharded_dimension columns(std::size_t rows, std::size_t columns) { return {rows, columns, 1}; }

  // The number of elements of the whole array, and of a rank's part.
  constexpr std::size_t size() const { return outer * extent * inner; }
  constexpr std::size_t size(int ranks, int rank) const { return outer * part(extent, ranks, rank).count * inner; }
  // The number of elements of every rank's part.
  std::vector<std::size_t> sizes(int ranks) const {
    std::vector<std::size_t> out;
    for (int r = 0; r < ranks; ++r) out.push_back(size(ranks, r));
    return out;
  }

  // Copies a rank's part of the whole array to `to`, and `from` to its place in the whole array. Throws error: bad_argument for
  // arrays of other sizes.
  template <class T>
  void copy_part(std::span<T const> whole, std::span<T> to, int ranks, int rank,
                 std::source_location where = std::source_location::current()) const {
    detail::expect_sharded(*this, whole.size(), to.size(), ranks, rank, where);
    for_each_run(ranks, rank, [&](std::size_t in_whole, std::size_t in_part, std::size_t n) {
      std::copy_n(whole.data() + in_whole, n, to.data() + in_part);
    });
  }
  template <class T>
  void place_part(std::span<T const> from, std::span<T> whole, int ranks, int rank,
                  std::source_location where = std::source_location::current()) const {
    detail::expect_sharded(*this, whole.size(), from.size(), ranks, rank, where);
    for_each_run(ranks, rank, [&](std::size_t in_whole, std::size_t in_part, std::size_t n) {
      std::copy_n(from.data() + in_part, n, whole.data() + in_whole);
    });
  }

 private:
  template <class F>
  void for_each_run(int ranks, int rank, F&& f) const {
    tutti::extent const mine = part(extent, ranks, rank);
    std::size_t const n = mine.count * inner;
    for (std::size_t i = 0; i < outer; ++i) f((i * extent + mine.begin) * inner, i * n, n);
  }
};

}  // namespace training

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/tensor/sharded_dimension_impl.hpp"
#endif
