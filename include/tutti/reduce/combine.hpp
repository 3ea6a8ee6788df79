// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only data path: N sources are combined element by element and stored to M destinations, in one pass over memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>

#include "tutti/reduce/fold.hpp"
#include "tutti/reduce/operation.hpp"
#include "tutti/reduce/stream.hpp"

namespace tutti::detail {

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
  int prepare = -1;     // the source that is a raw contribution, to which op.prepare applies; -1: none
  int finish = 0;       // the number of ranks, if the result is complete and op.finish applies; 0: it is not
  bool stream = false;  // the destination is not read soon: it is written past the caches, if it is the only one
};

// A message of a few bytes is combined without blocks, which would take longer than its elements.
inline constexpr std::size_t few_bytes = 64;

template <class Group, class T>
inline constexpr std::size_t pack_elements =
    elements_in<T>(pack_bytes < Group::block_bytes ? pack_bytes : Group::block_bytes);
template <class Group, class T>
inline constexpr std::size_t block_elements =
    elements_in<T>(Group::block_bytes) / pack_elements<Group, T> * pack_elements<Group, T>;

struct keep_accumulator {
  template <class A>
  constexpr A const& operator()(A const& all) const {
    return all;
  }
};

// Five or more sources: four, and then three at a time, with accumulators that stay in the first-level cache.
template <std::size_t Pack, std::size_t Block, class A, class T, class Op, class Last, class Source>
[[gnu::noinline]] void fold_many(bool stream, std::size_t count, Op const& op, Last const& last, T* out,
                                 Source const& source, int sources) {
  constexpr keep_accumulator keep{};
  alignas(A) alignas(64) std::byte memory[Block * sizeof(A)];
  A* const all = reinterpret_cast<A*>(memory);
  fold<Pack, A>(false, count, op, keep, all, source(0), source(1), source(2), source(3));
  int k = 4;
  for (; k + 3 < sources; k += 3)
    fold<Pack, A>(false, count, op, keep, all, all, source(k), source(k + 1), source(k + 2));
  switch (sources - k) {
    case 1: fold<Pack, A>(stream, count, op, last, out, all, source(k)); break;
    case 2: fold<Pack, A>(stream, count, op, last, out, all, source(k), source(k + 1)); break;
    default: fold<Pack, A>(stream, count, op, last, out, all, source(k), source(k + 1), source(k + 2));
  }
}

// A contribution is rounded to T after op.prepare, like those that arrive from other ranks, so that all ranks that combine the
// same contributions get the same bits. Not inlined, so that the compiler cannot fuse a product in prepare with the sum that
// follows.
template <std::size_t Pack, class A, class T, class Op>
[[gnu::noinline]] void prepare_block(std::size_t count, Op const& op, T* out, T const* in) {
  fold<Pack, A>(false, count, op, [&op](A const& x) { return static_cast<A>(op.prepare(x)); }, out, in);
}

// Whether the stores of a result may bypass the caches. Not in place: the lines are in the cache anyway, and such stores take 1.4
// times as long.
template <class Sources, class Destinations>
inline bool streams(Sources sources, int source_count, Destinations destinations, int destination_count) {
  if (destination_count != 1) return false;
  for (int k = 0; k < source_count; ++k)
    if (sources[k] == destinations[0]) return false;
  return true;
}

template <class T, class Group, class Sources, class Destinations, class Op, class Last>
[[gnu::noinline]] void combine_blocks(Group group, Sources sources, int source_count, Destinations destinations,
                                      int destination_count, std::size_t n, Op const& op, Last const& last, stage at) {
  using A = accumulator_for<Op, T>;
  constexpr std::size_t pack = pack_elements<Group, T>, block = block_elements<Group, T>;
  constexpr bool prepares = has_prepare<Op, A>;
  alignas(T) std::byte memory[prepares ? block * sizeof(T) : 1];
  T* const prepared = reinterpret_cast<T*>(memory);
  bool const stream = at.stream && streams(sources, source_count, destinations, destination_count);

  std::size_t const stride = block * static_cast<std::size_t>(group.size());
  for (std::size_t begin = block * static_cast<std::size_t>(group.rank()); begin < n; begin += stride) {
    std::size_t const count = n - begin < block ? n - begin : block;
    auto const source = [&](int k) -> T const* { return prepares && k == at.prepare ? prepared : sources[k] + begin; };
    if constexpr (prepares) {
      if (at.prepare >= 0) prepare_block<pack, A>(count, op, prepared, sources[at.prepare] + begin);
    }
    T* const out = destinations[0] + begin;
    switch (source_count) {
      case 1:
        if constexpr (prepares || has_finish<Op, A>) fold<pack, A>(stream, count, op, last, out, source(0));
        break;
      case 2: fold<pack, A>(stream, count, op, last, out, source(0), source(1)); break;
      case 3: fold<pack, A>(stream, count, op, last, out, source(0), source(1), source(2)); break;
      case 4: fold<pack, A>(stream, count, op, last, out, source(0), source(1), source(2), source(3)); break;
      default: fold_many<pack, block, A>(stream, count, op, last, out, source, source_count);
    }
    for (int k = 1; k < destination_count; ++k)
      if (destinations[k] != destinations[0])
        std::memcpy(static_cast<void*>(destinations[k] + begin), out, count * sizeof(T));
  }
  if (stream) stream_fence();
}

// Copies n elements to each destination, skipping one that is the source itself.
template <cooperating_group Group, element T>
void copy(Group group, T const* source, T* const* destinations, int destination_count, std::size_t n,
          bool stream = false) noexcept {
  std::size_t const size = static_cast<std::size_t>(group.size());
  std::size_t const block = size == 1 && destination_count == 1 ? n : detail::block_elements<Group, T>;
  for (std::size_t begin = block * static_cast<std::size_t>(group.rank()); begin < n; begin += block * size) {
    std::size_t const bytes = (n - begin < block ? n - begin : block) * sizeof(T);
    for (int k = 0; k < destination_count; ++k) {
      if (destinations[k] == source) continue;
      if (stream) detail::stream_copy(destinations[k] + begin, source + begin, bytes);
      else std::memcpy(static_cast<void*>(destinations[k] + begin), source + begin, bytes);
    }
  }
  if (stream) detail::stream_fence();
}

// Whether op.prepare or op.finish applies.
template <class T, class Op>
bool changes(stage at) {
  using A = accumulator_for<Op, T>;
  return (has_prepare<Op, A> && at.prepare >= 0) || (has_finish<Op, A> && at.finish > 0);
}

// Combines, unless that is a copy. sources[k] and destinations[k] are pointers to T.
template <class T, cooperating_group Group, class Sources, class Destinations, class Op>
[[gnu::always_inline]] inline void combine_lists(Group group, Sources sources, int source_count,
                                                 Destinations destinations, int destination_count, std::size_t n,
                                                 Op const& op, stage at) {
  using A = accumulator_for<Op, T>;
  if (n * sizeof(T) <= detail::few_bytes && source_count == 2 && destination_count == 1 && group.size() == 1 &&
      !changes<T, Op>(at) && !detail::converts_packs<A, T>)
    return detail::fold_rest<detail::elements_in<T>(detail::pack_bytes), A, detail::instructions::compiled_for>(
        0, n, op, detail::keep_accumulator{}, destinations[0], sources[0], sources[1]);
  if (destination_count == 0) return;
  if constexpr (has_finish<Op, A>) {
    if (at.finish > 0) {
      auto const finish = [&op, ranks = at.finish](A const& all) { return static_cast<A>(op.finish(all, ranks)); };
      return detail::combine_blocks<T>(group, sources, source_count, destinations, destination_count, n, op, finish,
                                       at);
    }
  }
  detail::combine_blocks<T>(group, sources, source_count, destinations, destination_count, n, op,
                            detail::keep_accumulator{}, at);
}

// Combines n elements of source_count >= 1 sources and stores the result to destination_count >= 0 destinations.
//
//   order      element i is op(...op(op(s0[i], s1[i]), s2[i])..., sk[i]) in the accumulator type; then op.finish if the
//              stage says so; then rounded to T once. The same bits for any n, alignment, position and CPU,
//              except that of two NaNs either may result.
//   stage      op.prepare applies to source stage.prepare, whose result is rounded to T before it is combined
//   aliasing   a source or destination may be the same pointer as another; partial overlap is not allowed
//   alignment  that of T
//   With one source and nothing to prepare or finish, this is a copy.
//
//   float const* const from[] = {mine, theirs};
//   float* const to[] = {mine, outgoing};
//   tutti::detail::combine(tutti::detail::one_thread{}, from, 2, to, 2, n, tutti::sum{});
template <cooperating_group Group, element T, operation<T> Op>
inline void combine(Group group, T const* const* sources, int source_count, T* const* destinations,
                    int destination_count, std::size_t n, Op const& op, stage at = {}) {
  if (destination_count > 0 && source_count == 1 && !changes<T, Op>(at))
    return copy(group, sources[0], destinations, destination_count, n, at.stream);
  combine_lists<T>(group, sources, source_count, destinations, destination_count, n, op, at);
}

}  // namespace tutti::detail
