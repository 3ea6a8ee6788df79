// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop over elements on a device: a group of threads combines N sources into M destinations, with prologue and epilogue. It also
// runs on the host, on one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "tutti/device/kernel/access.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

template <class After>
struct array_type {
  using type = std::byte;
};
template <class Step, class S, int Arrays, held Elements>
struct array_type<arrays_step<Step, S, Arrays, Elements>> {
  using type = S;
};

// A prologue may take the index of its source.
template <class A, class Before>
TUTTI_HOST_DEVICE inline A contribution(Before const& before, int k, A const& x) {
  if constexpr (requires { before(k, x); }) {
    expect_for_device<int const, A const>(before);
    return static_cast<A>(before(k, x));
  } else {
    expect_for_device<A const>(before);
    return static_cast<A>(before(x));
  }
}

// An epilogue on N elements, which are element `at` of its arrays and those that follow.
template <std::size_t N, class A, class After>
TUTTI_HOST_DEVICE inline void apply_epilogue(After const& after, std::size_t at, A const (&all)[N], A (&result)[N]) {
  constexpr int arrays = arrays_of<After>;
  if constexpr (arrays > 0) {
    using array = typename array_type<After>::type;
    expect_for_device<A const, array[arrays]>(after.step);
    array values[arrays][N];
    TUTTI_UNROLL
    for (int k = 0; k < arrays; ++k) load_elements<N>(after.arrays[k], at, values[k]);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) {
      array element[arrays];
      TUTTI_UNROLL
      for (int k = 0; k < arrays; ++k) element[k] = values[k][i];
      result[i] = static_cast<A>(after.step(all[i], element));
      TUTTI_UNROLL
      for (int k = 0; k < arrays; ++k) values[k][i] = element[k];
    }
    TUTTI_UNROLL
    for (int k = 0; k < arrays; ++k) store_elements<N>(after.arrays[k] + at, values[k]);
  } else {
    expect_for_device<A const>(after);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) result[i] = static_cast<A>(after(all[i]));
  }
}

// Each thread has eight packs in flight, or four of small elements, as far as all accumulators fit into its registers.
template <int FanIn, std::size_t Pack>
inline constexpr int turns_at_once = FanIn == 0 ? 1 : std::clamp((Pack > 8 ? 4 : 8) / FanIn, 1, Pack > 8 ? 2 : 4);

// from(k) is the k-th source, to(k) the k-th destination. There are exactly FanIn sources, or any number if it is 0. Arrays that are
// not aligned alike are read in packs too if AnyAlignment, and otherwise one element at a time.
template <int FanIn, class From, class To, class Fused, bool AnyAlignment = false>
struct combining;

template <int FanIn, class From, class To, class Op, class Before, class After, bool AnyAlignment>
struct combining<FanIn, From, To, fused<Op, Before, After>, AnyAlignment> {
  From const& from;
  int sources;
  To const& to;
  int destinations;
  std::size_t n;
  fused<Op, Before, After> const& how;
  bool past_first_cache = false;  // how the sources are read

  using source = std::remove_cvref_t<decltype(std::declval<From const&>()(0))>;
  using in = std::iter_value_t<source>;
  using out = std::remove_pointer_t<std::remove_cvref_t<decltype(std::declval<To const&>()(0))>>;
  using array = typename array_type<After>::type;
  using A = accumulator_for<Op, in>;
  static constexpr int arrays = arrays_of<After>;
  static constexpr std::size_t pack = arrays > 0 ? device_pack<in, out, array> : device_pack<in, out>;
  static constexpr int turns = arrays > 0 ? 1 : turns_at_once<FanIn, pack>;

  // Whether sources that are not aligned as the destinations are read in packs.
  static constexpr bool shifts = AnyAlignment && pack > 1 &&
                                 std::is_pointer_v<source>&& pack * sizeof(in) % sizeof(std::uint32_t) == 0;

  // Combines the next Sources sources, all loaded before the first is combined. First: there is no result yet. Around: by the
  // packs around their elements.
  template <int Sources, bool First, bool Around = false, int Turns, std::size_t N>
  TUTTI_HOST_DEVICE void add(int begin, std::size_t at, std::size_t stride, A (&all)[Turns][N]) const {
    expect_for_device<A const, A const>(how.op);
    in loaded[Turns][Sources][N];
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) {
      TUTTI_UNROLL
      for (int k = 0; k < Sources; ++k) {
        std::size_t const here = at + static_cast<std::size_t>(t) * stride;
        if constexpr (Around) load_around<N>(from(begin + k) + here, loaded[t][k]);
        else if (past_first_cache) load_past_first_cache<N>(from(begin + k), here, loaded[t][k]);
        else load_elements<N>(from(begin + k), here, loaded[t][k]);
      }
    }
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) {
      TUTTI_UNROLL
      for (int k = 0; k < Sources; ++k) {
        TUTTI_UNROLL
        for (std::size_t i = 0; i < N; ++i) {
          A const x = contribution(how.before, begin + k, widened<A>(loaded[t][k][i]));
          if (First && k == 0) all[t][i] = x;
          else all[t][i] = static_cast<A>(how.op(all[t][i], x));
        }
      }
    }
  }

  template <bool Around = false, std::size_t N>
  TUTTI_HOST_DEVICE void finish(std::size_t at, A const (&all)[N]) const {
    A ended[N];
    out result[N];
    apply_epilogue(how.after, at, all, ended);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) result[i] = narrowed<out>(ended[i]);
    TUTTI_NO_UNROLL
    for (int k = 0; k < destinations; ++k)
      if constexpr (Around) store_some<N>(to(k) + at, N, is_aligned(to(k), at), result);
      else store_elements<N>(to(k) + at, result);
  }

  // `Turns` packs of N elements, `stride` apart.
  template <std::size_t N, int Turns>
  TUTTI_HOST_DEVICE void turn(std::size_t at, std::size_t stride) const {
    A all[Turns][N];
    if constexpr (FanIn > 0) {
      add<FanIn, true>(0, at, stride, all);
    } else {
      add<1, true>(0, at, stride, all);
      int k = 1;
      TUTTI_NO_UNROLL
      for (; k + 4 <= sources; k += 4) add<4, false>(k, at, stride, all);
      TUTTI_NO_UNROLL
      for (; k < sources; ++k) add<1, false>(k, at, stride, all);
    }
    TUTTI_UNROLL
    for (int t = 0; t < Turns; ++t) finish(at + static_cast<std::size_t>(t) * stride, all[t]);
  }

  // Threads of a block take neighbouring packs, `Turns` times.
  template <std::size_t N, int Turns, class Group>
  TUTTI_HOST_DEVICE void sweep(Group const& group, std::size_t begin, std::size_t packs) const {
    std::size_t const size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
    std::size_t done = 0;
    if constexpr (Turns > 1) {
      if constexpr (requires { Group::block_size; }) {
        constexpr std::size_t width = Group::block_size, tile = width * Turns;
        if (2 * packs > size * Turns) done = packs / tile * tile;  // or too few threads would have work
        for (std::size_t i = rank / width * tile + rank % width; i < done; i += size * Turns)
          turn<N, Turns>(begin + i * N, width * N);
      } else {
        std::size_t const tile = size * Turns;
        for (; done + tile <= packs; done += tile) turn<N, Turns>(begin + (done + rank) * N, size * N);
      }
    }
    for (std::size_t i = done + rank; i < packs; i += size) turn<N, 1>(begin + i * N, 0);
  }

  // Whether p + head is aligned for a pack.
  template <class P>
  TUTTI_HOST_DEVICE static bool is_aligned(P p, std::size_t head) {
    if constexpr (std::is_pointer_v<P>) return is_aligned_for<pack>(p + head);
    else return true;
  }

  // The number of elements before the first pack, which a destination or an array of the epilogue decides; `pack` if it begins
  // between two elements.
  TUTTI_HOST_DEVICE std::size_t before_packs() const {
    auto const is_aligned_for_stores = [this](std::size_t head) {
      if (destinations > 0) return is_aligned(to(0), head);
      if constexpr (arrays > 0) return is_aligned(how.after.arrays[0], head);
      else return true;
    };
    std::size_t head = 0;
    while (head < pack && !is_aligned_for_stores(head)) ++head;
    return head;
  }
  TUTTI_HOST_DEVICE bool arrays_are_aligned(std::size_t head) const {
    bool all = true;
    if constexpr (arrays > 0)
      for (int k = 0; k < arrays; ++k) all = all && is_aligned(how.after.arrays[k], head);
    return all;
  }
  TUTTI_HOST_DEVICE bool are_aligned(std::size_t head) const {
    bool all = arrays_are_aligned(head);
    for (int k = 0; k < sources; ++k) all = all && is_aligned(from(k), head);
    for (int k = 0; k < destinations; ++k) all = all && is_aligned(to(k), head);
    return all;
  }

  // Whether the packs around elements of a source contain some that are destinations of other threads: it is one, in place.
  TUTTI_HOST_DEVICE bool reads_destinations(std::size_t head) const {
    for (int k = 0; k < sources; ++k) {
      if (is_aligned(from(k), head)) continue;
      for (int j = 0; j < destinations; ++j)
        if (static_cast<void const*>(from(k)) == static_cast<void const*>(to(j))) return true;
    }
    return false;
  }

  // One pack, of one source after the other, because two packs are loaded for it.
  TUTTI_HOST_DEVICE void turn_around(std::size_t at) const {
    A all[1][pack];
    add<1, true, true>(0, at, 0, all);
    if constexpr (FanIn != 1) {
      TUTTI_NO_UNROLL
      for (int k = 1; k < sources; ++k) add<1, false, true>(k, at, 0, all);
    }
    finish<true>(at, all[0]);
  }
  // Nothing outside of the sources is read: the packs around the first and the last one are within them.
  template <class Group>
  TUTTI_HOST_DEVICE void sweep_around(Group const& group, std::size_t head) const {
    std::size_t const begin = head + pack, packs = (n - begin) / pack - 1, tail = begin + packs * pack;
    sweep<1, 1>(group, 0, begin);
    std::size_t const size = static_cast<std::size_t>(group.size());
    for (std::size_t i = static_cast<std::size_t>(group.rank()); i < packs; i += size) turn_around(begin + i * pack);
    sweep<1, 1>(group, tail, n - tail);
  }

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    std::size_t head = 0;
    if constexpr (pack > 1) {
      head = before_packs();
      bool const alike = head < pack && head < n && are_aligned(head);
      if constexpr (shifts)
        if (!alike && head < pack && head + 3 * pack <= n && arrays_are_aligned(head) && !reads_destinations(head))
          return sweep_around(group, head);
      if (!alike) head = n;
      sweep<1, 1>(group, 0, head);
    }
    std::size_t const packs = (n - head) / pack, tail = head + packs * pack;
    sweep<pack, turns>(group, head, packs);
    if constexpr (pack > 1) sweep<1, 1>(group, tail, n - tail);
  }
};

}  // namespace tutti::detail
