// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loops over elements, in packs that compilers turn into vector instructions.
#pragma once

#include <cstddef>
#include <cstring>

#include "tutti/core/config.hpp"
#include "tutti/reduce/pack.hpp"
#include "tutti/reduce/stream.hpp"

namespace tutti::detail {

// Packs of 128 bytes, then of 16, the width of a vector register on every x86-64 and AArch64. Among packs of 64, 128 and 256
// bytes, each with short packs of a 4th, an 8th and a 16th, this pair is the fastest or nearly so for messages of 60, 64 and 8192
// bytes (sums of float, int8 and bfloat16; GCC 12 -O2 with and without -march=native; AMD EPYC, family 25 model 17).
inline constexpr std::size_t pack_bytes = 128;
inline constexpr std::size_t short_packs = 8;
// Elements of one byte that are combined in float need 32 bytes, because their floats are converted and combined in wider registers.
template <std::size_t Pack, class A>
inline constexpr std::size_t short_pack = Pack / (Pack == pack_bytes && sizeof(A) > 1 ? short_packs / 2 : short_packs);

// The number of T that fit into `bytes`, at least one.
template <class T>
constexpr std::size_t elements_in(std::size_t bytes) {
  return bytes < sizeof(T) ? 1 : bytes / sizeof(T);
}
// One pack. A constant trip count and an index that starts at 0 make GCC 12 vectorise and unroll at plain -O2; otherwise sums of
// float take 3.7 times as long in the first-level cache and 2.2 times in the second. A destination may be one of the sources, so
// pointers are not restrict, but element i depends only on elements i, which the pragma tells GCC. The pragma of clang would warn
// if a user's operation cannot be vectorised; there a local array stays in registers instead.
template <std::size_t Pack, class Out, class Value>
[[gnu::always_inline]] inline void for_pack(Out* out, Value const& value) {
#if defined(__clang__)
  alignas(Out) std::byte memory[Pack * sizeof(Out)];
  Out* const result = reinterpret_cast<Out*>(memory);
  for (std::size_t i = 0; i < Pack; ++i) result[i] = value(i);
  std::memcpy(static_cast<void*>(out), result, sizeof memory);
#else
#pragma GCC ivdep
  TUTTI_UNROLL
  for (std::size_t i = 0; i < Pack; ++i) out[i] = value(i);
#endif
}

// The same for packs that are converted as a whole.
template <std::size_t Pack, class A, instructions Has, class Out, class Op, class Last, class First, class... Rest>
[[gnu::always_inline]] inline void convert_pack(Op const& op, Last const& last, Out* out, First const* first,
                                                Rest const*... rest) {
  A all[Pack], next[Pack];
  load_pack<Pack, Has>(first, all);
  [[maybe_unused]] auto const add = [&](auto const* source) __attribute__((always_inline)) {
    load_pack<Pack, Has>(source, next);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < Pack; ++i) all[i] = static_cast<A>(op(all[i], next[i]));
  };
  (add(rest), ...);
  TUTTI_UNROLL
  for (std::size_t i = 0; i < Pack; ++i) all[i] = static_cast<A>(last(all[i]));
  store_pack<Pack, Has>(all, out);
}

// Processes whole packs from `begin` on; returns where it stopped.
template <std::size_t Pack, class A, instructions Has, bool Stream, class Out, class Op, class Last, class First,
          class... Rest>
[[gnu::always_inline]] inline std::size_t for_packs(std::size_t begin, std::size_t end, Op const& op, Last const& last,
                                                    Out* out, First const* first, Rest const*... rest) {
  auto const pack = [&](std::size_t at, Out* to) __attribute__((always_inline)) {
    if constexpr (converts_packs<A, Out, First, Rest...>) {
      convert_pack<Pack, A, Has>(op, last, to, first + at, rest + at...);
    } else {
      for_pack<Pack>(to, [&](std::size_t i) __attribute__((always_inline)) {
        A all = static_cast<A>(first[at + i]);
        ((all = static_cast<A>(op(all, static_cast<A>(rest[at + i])))), ...);
        return static_cast<Out>(last(all));
      });
    }
  };
#if defined(__clang__)
#pragma clang loop vectorize(disable) unroll(disable)
#endif
  for (; begin + Pack <= end; begin += Pack) {
    if constexpr (Stream) {
      alignas(Out) alignas(16) std::byte memory[Pack * sizeof(Out)];
      pack(begin, reinterpret_cast<Out*>(memory));
      stream_lines<sizeof memory>(out + begin, memory);
    } else {
      pack(begin, out + begin);
    }
  }
  return begin;
}

// One pass over `count` elements, in packs, short packs and single elements. Nothing is reassociated, so the position of an
// element does not affect its result.
template <std::size_t Pack, class A, instructions Has, bool Stream, class... Arguments>
[[gnu::always_inline]] inline void fold_with(std::size_t count, Arguments const&... arguments) {
  std::size_t done = 0;
  if constexpr (Pack > 1) done = for_packs<Pack, A, Has, Stream>(done, count, arguments...);
  if constexpr (Pack > short_packs) done = for_packs<short_pack<Pack, A>, A, Has, false>(done, count, arguments...);
  for_packs<1, A, Has, false>(done, count, arguments...);
}

#if defined(__x86_64__) && !defined(__CUDACC__)
// With these instructions sums of bfloat16 are 3 to 4 times as fast, and of half about 30 times. Types without conversion would
// gain 1.2 to 1.5 times in the first-level cache and nothing beyond it, so their loops have no second version.
template <std::size_t Pack, class A, class Out, class Op, class Last, class... Sources>
[[gnu::noinline, gnu::target("avx2,f16c")]] void fold_widest(std::size_t count, Op const& op, Last const& last,
                                                             Out* out, Sources const*... sources) {
  fold_with<Pack, A, instructions::avx2_and_f16c, false>(count, op, last, out, sources...);
}
#endif

template <std::size_t Pack, class A, class Out, class Op, class Last, class... Sources>
[[gnu::always_inline]] inline void fold(std::size_t count, Op const& op, Last const& last, Out* out,
                                        Sources const*... sources) {
#if defined(__x86_64__) && !defined(__CUDACC__)
  if constexpr (converts_packs<A, Out, Sources...>) {
    if (use_widest) return fold_widest<Pack, A>(count, op, last, out, sources...);
  }
#endif
  fold_with<Pack, A, instructions::compiled_for, false>(count, op, last, out, sources...);
}

// The same. If `stream`, stores bypass the caches, except before the first whole line and after the last pack. Not for elements
// that do not fill lines, nor for 16-bit floats, whose conversion takes as long as the store.
template <std::size_t Pack, class A, class Out, class Op, class Last, class... Sources>
inline void store(bool stream, std::size_t count, Op const& op, Last const& last, Out* out, Sources const*... sources) {
  if constexpr (Pack * sizeof(Out) == pack_bytes && Pack > short_packs && !converts_packs<A, Out>) {
    std::size_t const before = bytes_to_line(out);
    if (stream && before % sizeof(Out) == 0) {
      std::size_t const head = before / sizeof(Out) < count ? before / sizeof(Out) : count;
      fold<Pack / short_packs, A>(head, op, last, out, sources...);
      return fold_with<Pack, A, instructions::compiled_for, true>(count - head, op, last, out + head,
                                                                  (sources + head)...);
    }
  }
  fold<Pack, A>(count, op, last, out, sources...);
}

}  // namespace tutti::detail
