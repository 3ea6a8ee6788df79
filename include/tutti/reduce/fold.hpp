// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loops over elements, in packs that compilers turn into vector instructions.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

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
#if defined(__x86_64__) && !defined(__CUDACC__)
      if constexpr (Has == instructions::avx2_and_f16c) stream_lines_widest<sizeof memory>(out + begin, memory);
      else
#endif
        stream_lines<sizeof memory>(out + begin, memory);
    } else {
      pack(begin, out + begin);
    }
  }
  return begin;
}

// Whether packs can be stored past the caches. Not elements that do not fill lines, nor 16-bit floats, whose conversion takes as long
// as the store.
template <std::size_t Pack, class A, class Out>
inline constexpr bool can_stream = Pack * sizeof(Out) == pack_bytes && Pack > short_packs && !converts_packs<A, Out>;

template <std::size_t Pack, class A, instructions Has, class Op, class Last, class Out, class... Sources>
[[gnu::always_inline]] inline std::size_t fold_packs(bool stream, std::size_t begin, std::size_t end, Op const& op,
                                                     Last const& last, Out* out, Sources const*... sources) {
  if constexpr (can_stream<Pack, A, Out>)
    if (stream) return for_packs<Pack, A, Has, true>(begin, end, op, last, out, sources...);
  if constexpr (Pack > 1) return for_packs<Pack, A, Has, false>(begin, end, op, last, out, sources...);
  return begin;
}
// Short packs and single elements.
template <std::size_t Pack, class A, instructions Has, class... Arguments>
[[gnu::always_inline]] inline void fold_rest(std::size_t begin, std::size_t end, Arguments const&... arguments) {
  if constexpr (Pack > short_packs) begin = for_packs<short_pack<Pack, A>, A, Has, false>(begin, end, arguments...);
  for_packs<1, A, Has, false>(begin, end, arguments...);
}

#if defined(__x86_64__) && !defined(__CUDACC__)
// With AVX2, packs in the first-level cache take 0.55 to 0.75 times as long, and an all_reduce of 32 KiB to 8 MiB 0.83 to 0.92 times for the
// greatest of floats, 0.88 to 0.99 times for their sum (AMD EPYC Zen 4, 2 ranks). GCC 12 does not vectorise short packs.
template <std::size_t Pack, class A, class... Arguments>
[[gnu::noinline, gnu::target("avx2,f16c")]] std::size_t fold_packs_widest(bool stream, std::size_t begin,
                                                                          std::size_t end,
                                                                          Arguments const&... arguments) {
  return fold_packs<Pack, A, instructions::avx2_and_f16c>(stream, begin, end, arguments...);
}
// With these instructions sums of bfloat16 are 3 to 4 times as fast, and of half about 30 times.
template <std::size_t Pack, class A, class... Arguments>
[[gnu::noinline, gnu::target("avx2,f16c")]] void fold_widest(std::size_t count, Arguments const&... arguments) {
  constexpr auto has = instructions::avx2_and_f16c;
  fold_rest<Pack, A, has>(fold_packs<Pack, A, has>(false, 0, count, arguments...), count, arguments...);
}
#endif

// Not inlined, because its callers would contain it several times.
template <std::size_t Pack, class A, class Out, class Op, class Last, class... Sources>
[[gnu::noinline]] void fold_in_packs(bool stream, std::size_t count, Op const& op, Last const& last, Out* out,
                                     Sources const*... sources) {
  constexpr auto has = instructions::compiled_for;
  auto const packs = [&](std::size_t begin) __attribute__((always_inline)) {
#if defined(__x86_64__) && !defined(__CUDACC__)
    if constexpr (Pack > short_packs && !compiled_for_widest && !converts_packs<A, Out, Sources...>)
      if (use_widest && count >= Pack)
        return fold_packs_widest<Pack, A>(stream, begin, count, op, last, out, sources...);
#endif
    return fold_packs<Pack, A, has>(stream, begin, count, op, last, out, sources...);
  };
  std::size_t begin = 0, end = count;
  if constexpr (can_stream<Pack, A, Out>) {
    std::size_t const before = bytes_to_line(out);
    stream = stream && before % sizeof(Out) == 0;
    if (stream && before / sizeof(Out) < count) end = before / sizeof(Out);
  }
  for (;; begin = std::exchange(end, count)) {
    fold_rest<Pack, A, has>(end == count ? packs(begin) : begin, end, op, last, out, sources...);
    if (end == count) return;
  }
}

// One pass over `count` elements, in packs, short packs and single elements. Nothing is reassociated, so the position of an
// element does not affect its result. If `stream`, packs are stored past the caches where they can be, from the first whole line on.
template <std::size_t Pack, class A, class Out, class Op, class Last, class... Sources>
[[gnu::always_inline]] inline void fold(bool stream, std::size_t count, Op const& op, Last const& last, Out* out,
                                        Sources const*... sources) {
#if defined(__x86_64__) && !defined(__CUDACC__)
  if constexpr (converts_packs<A, Out, Sources...>)
    if (use_widest) return fold_widest<Pack, A>(count, op, last, out, sources...);
#endif
  fold_in_packs<Pack, A>(stream, count, op, last, out, sources...);
}

}  // namespace tutti::detail
