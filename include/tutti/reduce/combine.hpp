// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only data path: N sources are combined element by element and stored to M destinations, in one pass over memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>

#include "tutti/reduce/operation.hpp"

namespace tutti {

// Who works together on a message. Members take blocks in turn and never wait for each other.
template <class Group>
concept cooperating_group = requires(Group const group) {
  { group.rank() } -> std::convertible_to<int>;
  { group.size() } -> std::convertible_to<int>;
  { Group::block_bytes } -> std::convertible_to<std::size_t>;
};

// 4 KiB of each of a few sources, their accumulators and the result stay in a first-level cache.
struct one_thread {
  static constexpr std::size_t block_bytes = 4096;
  TUTTI_HOST_DEVICE static constexpr int rank() { return 0; }
  TUTTI_HOST_DEVICE static constexpr int size() { return 1; }
};
static_assert(cooperating_group<one_thread>);

// Where in the life of a result a call stands.
struct stage {
  int prepare = -1;  // the source that is a raw contribution, to which op.prepare applies; -1: none
  int finish = 0;    // the number of ranks, if the result is complete and op.finish applies; 0: it is not
};

namespace detail {

// Packs of 128 bytes, then of 16, the vector register of all x86-64 and AArch64. Of 64, 128 and 256 bytes, with a 4th,
// an 8th and a 16th of it, this pair is at or near the best for messages of 60, 64 and 8192 bytes (sums of float, int8
// and bfloat16; GCC 12 -O2 with and without -march=native; AMD EPYC, family 25 model 17).
inline constexpr std::size_t pack_bytes = 128;
inline constexpr std::size_t short_packs = 8;

// As many T as `bytes` hold, at least one.
template <class T>
constexpr std::size_t elements_in(std::size_t bytes) {
  return bytes < sizeof(T) ? 1 : bytes / sizeof(T);
}
template <class Group, class T>
inline constexpr std::size_t pack_elements =
    elements_in<T>(pack_bytes < Group::block_bytes ? pack_bytes : Group::block_bytes);
template <class Group, class T>
inline constexpr std::size_t block_elements =
    elements_in<T>(Group::block_bytes) / pack_elements<Group, T> * pack_elements<Group, T>;

// The inner loop: whole packs of elements from `begin`; returns where it stopped. The trip count of a pack is a
// constant, which is what makes GCC 12 emit vector instructions at plain -O2; a run-time count does not. A destination
// may be one of the sources, so pointers are not restrict, but element i depends on elements i alone. GCC takes the
// pragma's word for that. clang's pragma would warn where a user's operation is not one for vectors; it keeps a local
// array in registers.
template <std::size_t Pack, class Out, class Value>
TUTTI_HOST_DEVICE inline std::size_t for_packs(std::size_t begin, std::size_t end, Out* out, Value const& value) {
#if defined(__clang__)
#pragma clang loop vectorize(disable) unroll(disable)
  for (; begin + Pack <= end; begin += Pack) {
    alignas(Out) std::byte memory[Pack * sizeof(Out)];
    Out* const result = reinterpret_cast<Out*>(memory);
    for (std::size_t i = 0; i < Pack; ++i) result[i] = value(begin + i);
    std::memcpy(out + begin, result, Pack * sizeof(Out));
  }
#else
  for (; begin + Pack <= end; begin += Pack) {
#pragma GCC ivdep
    for (std::size_t i = begin; i < begin + Pack; ++i) out[i] = value(i);
  }
#endif
  return begin;
}

// One pass over `count` elements, in packs, short packs and single ones. Nothing is reassociated, so a result is the
// same wherever its element stands.
template <std::size_t Pack, class A, class Out, class Op, class Last, class First, class... Rest>
TUTTI_HOST_DEVICE inline void fold(std::size_t count, Op const& op, Last const& last, Out* out, First const* first,
                                   Rest const*... rest) {
  auto const value = [&](std::size_t i) __attribute__((always_inline)) {
    A all = static_cast<A>(first[i]);
    ((all = static_cast<A>(op(all, static_cast<A>(rest[i])))), ...);
    return static_cast<Out>(last(all));
  };
  std::size_t done = 0;
  if constexpr (Pack > 1) done = for_packs<Pack>(done, count, out, value);
  if constexpr (Pack > short_packs) done = for_packs<Pack / short_packs>(done, count, out, value);
  for_packs<1>(done, count, out, value);
}

struct keep_accumulator {
  template <class A>
  TUTTI_HOST_DEVICE constexpr A const& operator()(A const& all) const {
    return all;
  }
};

// Five sources and more: four at a time into accumulators that stay in the first-level cache.
template <std::size_t Pack, std::size_t Block, class A, class T, class Op, class Last, class Source>
[[gnu::noinline]] TUTTI_HOST_DEVICE void fold_many(std::size_t count, Op const& op, Last const& last, T* out,
                                                   Source const& source, int sources) {
  constexpr keep_accumulator keep{};
  alignas(A) alignas(64) std::byte memory[Block * sizeof(A)];
  A* const all = reinterpret_cast<A*>(memory);
  fold<Pack, A>(count, op, keep, all, source(0), source(1), source(2), source(3));
  int k = 4;
  for (; k + 4 < sources; k += 4)
    fold<Pack, A>(count, op, keep, all, all, source(k), source(k + 1), source(k + 2), source(k + 3));
  for (; k + 1 < sources; ++k) fold<Pack, A>(count, op, keep, all, all, source(k));
  fold<Pack, A>(count, op, last, out, all, source(k));
}

// A contribution is rounded to T after op.prepare, like those that arrive from other ranks: all ranks that combine the
// same contributions get the same bits. Out of line, lest a compiler fuse the product of prepare with the sum that
// follows.
template <std::size_t Pack, class A, class T, class Op>
[[gnu::noinline]] TUTTI_HOST_DEVICE void prepare_block(std::size_t count, Op const& op, T* out, T const* in) {
  fold<Pack, A>(count, op, [&op](A const& x) { return static_cast<A>(op.prepare(x)); }, out, in);
}

template <class Group, class T, class Op, class Last>
TUTTI_HOST_DEVICE void combine_blocks(Group group, T const* const* sources, int source_count, T* const* destinations,
                                      int destination_count, std::size_t n, Op const& op, Last const& last,
                                      int prepare) {
  using A = accumulator_for<Op, T>;
  constexpr std::size_t pack = pack_elements<Group, T>, block = block_elements<Group, T>;
  constexpr bool prepares = has_prepare<Op, A>;
  alignas(T) std::byte memory[prepares ? block * sizeof(T) : 1];
  T* const prepared = reinterpret_cast<T*>(memory);

  std::size_t const stride = block * static_cast<std::size_t>(group.size());
  for (std::size_t begin = block * static_cast<std::size_t>(group.rank()); begin < n; begin += stride) {
    std::size_t const count = n - begin < block ? n - begin : block;
    auto const source = [&](int k) -> T const* { return prepares && k == prepare ? prepared : sources[k] + begin; };
    if constexpr (prepares) {
      if (prepare >= 0) prepare_block<pack, A>(count, op, prepared, sources[prepare] + begin);
    }
    T* const out = destinations[0] + begin;
    switch (source_count) {
      case 1:
        if constexpr (prepares || has_finish<Op, A>) fold<pack, A>(count, op, last, out, source(0));
        break;
      case 2: fold<pack, A>(count, op, last, out, source(0), source(1)); break;
      case 3: fold<pack, A>(count, op, last, out, source(0), source(1), source(2)); break;
      case 4: fold<pack, A>(count, op, last, out, source(0), source(1), source(2), source(3)); break;
      default: fold_many<pack, block, A>(count, op, last, out, source, source_count);
    }
    for (int k = 1; k < destination_count; ++k)
      if (destinations[k] != destinations[0]) std::memcpy(destinations[k] + begin, out, count * sizeof(T));
  }
}

}  // namespace detail

// Copies n elements to each of the destinations. A destination may be the source itself, and is then left alone.
template <cooperating_group Group, element T>
TUTTI_HOST_DEVICE void copy(Group group, T const* source, T* const* destinations, int destination_count,
                            std::size_t n) noexcept {
  std::size_t const size = static_cast<std::size_t>(group.size());
  std::size_t const block = size == 1 && destination_count == 1 ? n : detail::block_elements<Group, T>;
  for (std::size_t begin = block * static_cast<std::size_t>(group.rank()); begin < n; begin += block * size) {
    std::size_t const bytes = (n - begin < block ? n - begin : block) * sizeof(T);
    for (int k = 0; k < destination_count; ++k)
      if (destinations[k] != source) std::memcpy(destinations[k] + begin, source + begin, bytes);
  }
}

// Combines n elements of source_count >= 1 sources and stores the result to destination_count >= 0 destinations.
//
//   order      element i is op(...op(op(s0[i], s1[i]), s2[i])..., sk[i]) in the accumulator type; then op.finish if the
//              stage says so; then rounded to T once. The same bits for any n, alignment and position.
//   stage      op.prepare applies to source stage.prepare, whose result is rounded to T before it is combined
//   aliasing   a source or destination may be the same pointer as another; partial overlap is not allowed
//   alignment  that of T
//   one source and nothing to prepare or finish: a copy
//
//   float const* const from[] = {mine, theirs};
//   float* const to[] = {mine, outgoing};
//   tutti::combine(tutti::one_thread{}, from, 2, to, 2, n, tutti::sum{});
template <cooperating_group Group, element T, operation<T> Op>
TUTTI_HOST_DEVICE void combine(Group group, T const* const* sources, int source_count, T* const* destinations,
                               int destination_count, std::size_t n, Op const& op, stage at = {}) noexcept {
  using A = accumulator_for<Op, T>;
  bool const prepares = has_prepare<Op, A> && at.prepare >= 0, finishes = has_finish<Op, A> && at.finish > 0;
  if (destination_count == 0) return;
  if (source_count == 1 && !prepares && !finishes) return copy(group, sources[0], destinations, destination_count, n);
  if constexpr (has_finish<Op, A>) {
    if (finishes) {
      auto const finish = [&op, ranks = at.finish](A const& all) { return static_cast<A>(op.finish(all, ranks)); };
      return detail::combine_blocks(group, sources, source_count, destinations, destination_count, n, op, finish,
                                    at.prepare);
    }
  }
  detail::combine_blocks(group, sources, source_count, destinations, destination_count, n, op,
                         detail::keep_accumulator{}, at.prepare);
}

}  // namespace tutti
