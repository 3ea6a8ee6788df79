// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective of one size: its arrays, inputs and expected results. Sizes are defined as in nccl-tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "tutti/algorithm/collective.hpp"

#include "kinds.hpp"

namespace bench {

// The kind of call: a blocking or a started collective; or rank 0 sends its array to rank 1, with the result of a broadcast, either as a
// message that is returned or as several messages at once that are answered by one.
enum class manner { blocking, started, there_and_back, window };
inline constexpr std::size_t window_length = 64;

// `bytes` is the size of the larger array of a rank: the input of reduce_scatter, the output of all_gather.
struct task {
  tutti::collective what{};
  manner how{};
  std::size_t bytes = 0;
  bool in_place = false;
  bool result_first = false;  // in place, reduce_scatter leaves its block at the start of the array, as in MPI and Gloo
  int ranks = 1;
  int rank = 0;

  int partner() const { return 1 - rank; }
  bool root() const { return rank == 0; }
  bool between_two() const { return how == manner::there_and_back || how == manner::window; }
};

// A task on elements of a type: the bytes are rounded down to a whole number of elements per rank.
template <class T>
struct extent {
  explicit extent(task const& t) {
    std::size_t const ranks = static_cast<std::size_t>(t.ranks), parts = tutti::by_block(t.what) ? ranks : 1;
    count = t.bytes / sizeof(T) / parts * parts;
    block = count / ranks;
    mine = block * static_cast<std::size_t>(t.rank);
  }
  std::size_t count, block, mine;
};

// If a task is in place, the arrays overlap in part or completely.
template <class T>
struct arrays {
  std::span<T> in, out, result;
};

template <class T>
arrays<T> cut(task const& t, T* first, T* second) {
  using tutti::detail::holding;
  extent<T> const e(t);
  auto const& row = tutti::detail::row_of(t.what);
  holding const gives = row.input.at(t.root()), gets = row.output.at(t.root());
  std::span<T> in(first, e.count), out(t.in_place ? first : second, e.count);
  if (t.what == tutti::collective::broadcast) return {in, in, in};
  // In place, this rank's own block lies in the array that has all blocks.
  bool const within = t.in_place && gives != holding::none && gets != holding::none;
  auto const own_of = [&](std::span<T> all, bool inside) {
    return inside ? all.subspan(e.mine, e.block) : all.first(e.block);
  };
  if (gives == holding::own) in = own_of(within ? out : in, within);
  if (gets == holding::own) out = own_of(out, within && !t.result_first);
  return {in, out, gets == holding::none ? out.first(0) : out};
}

// Inputs are small repeating integers that every kind combines exactly in any order: bf16 for up to 36 ranks, e4m3 for 28, e5m2
// for 14.
inline constexpr std::size_t period = 7;
inline int contribution(int rank, std::size_t i) {
  return static_cast<int>((static_cast<std::size_t>(rank) + i) % period) + 1;
}

template <class Kind, class T = typename Kind::element>
void write_inputs(task const& t, arrays<T> const& a) {
  std::fill(a.out.begin(), a.out.end(), Kind::make(0));
  for (std::size_t i = 0; i < a.in.size(); ++i) a.in[i] = Kind::make(contribution(t.rank, i));
}

// Rewrites an input, as its owner does before every call in mode `it`.
template <class Kind, class T = typename Kind::element>
void rewrite(task const& t, arrays<T> const& a, int value) {
  if (tutti::detail::row_of(t.what).input.at(t.root()) != tutti::detail::holding::none)
    std::fill(a.in.begin(), a.in.end(), Kind::make(value));
}

// Checks the result of the collective.
template <class Kind, class T = typename Kind::element>
bool right(task const& t, arrays<T> const& a) {
  extent<T> const e(t);
  std::array<T, period> all;
  for (std::size_t i = 0; i < period; ++i) {
    all[i] = Kind::make(contribution(0, i));
    for (int r = 1; r < t.ranks; ++r) {
      T const next = Kind::make(contribution(r, i));
      combine<Kind>(&all[i], &all[i], &next, 1);
    }
  }
  using tutti::detail::contributions;
  auto const& row = tutti::detail::row_of(t.what);
  std::size_t const begin = row.output.at(t.root()) == tutti::detail::holding::own ? e.mine : 0;
  for (std::size_t i = 0; i < a.result.size(); ++i) {
    T wanted{};
    switch (row.result) {
      case contributions::root: wanted = Kind::make(contribution(0, begin + i)); break;
      case contributions::owner: wanted = Kind::make(contribution(static_cast<int>(i / e.block), i % e.block)); break;
      case contributions::transposed:
        wanted = Kind::make(contribution(static_cast<int>(i / e.block), e.mine + i % e.block));
        break;
      default: wanted = all[(begin + i) % period];
    }
    if (a.result[i] != wanted) return false;
  }
  return true;
}

}  // namespace bench
