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
  extent<T> const e(t);
  std::span<T> const in(first, e.count), out(t.in_place ? first : second, e.count);
  switch (t.what) {
    case tutti::collective::broadcast: return {in, in, in};
    case tutti::collective::all_gather:
    case tutti::collective::gather: {
      bool const within = t.in_place && (t.what == tutti::collective::all_gather || t.root());
      return {within ? out.subspan(e.mine, e.block) : in.first(e.block), out,
              t.what == tutti::collective::gather && !t.root() ? out.first(0) : out};
    }
    case tutti::collective::reduce_scatter: {
      bool const within = t.in_place && !t.result_first;
      std::span<T> const mine = within ? in.subspan(e.mine, e.block) : out.first(e.block);
      return {in, mine, mine};
    }
    case tutti::collective::scatter: {
      std::span<T> const mine = t.in_place && t.root() ? in.subspan(e.mine, e.block) : out.first(e.block);
      return {in, mine, mine};
    }
    case tutti::collective::reduce: return {in, out, t.root() ? out : out.first(0)};
    default: return {in, out, out};
  }
}

// Inputs are small repeating integers that every kind combines exactly in any order, bf16 for up to 36 ranks.
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
  bool const owner = t.root() || (t.what != tutti::collective::broadcast && t.what != tutti::collective::scatter);
  if (owner) std::fill(a.in.begin(), a.in.end(), Kind::make(value));
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
  for (std::size_t i = 0; i < a.result.size(); ++i) {
    T wanted{};
    switch (t.what) {
      case tutti::collective::all_reduce:
      case tutti::collective::reduce: wanted = all[i % period]; break;
      case tutti::collective::reduce_scatter: wanted = all[(e.mine + i) % period]; break;
      case tutti::collective::broadcast: wanted = Kind::make(contribution(0, i)); break;
      case tutti::collective::scatter: wanted = Kind::make(contribution(0, e.mine + i)); break;
      case tutti::collective::all_to_all:
        wanted = Kind::make(contribution(static_cast<int>(i / e.block), e.mine + i % e.block));
        break;
      default: wanted = Kind::make(contribution(static_cast<int>(i / e.block), i % e.block));
    }
    if (a.result[i] != wanted) return false;
  }
  return true;
}

}  // namespace bench
