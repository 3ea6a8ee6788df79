// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Access to the elements in device memory: packs, which a thread loads or stores by one instruction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// The widest access of a device is 16 bytes. If element types differ, packs of the widest type have 16 bytes and the others fewer,
// so that neighbouring threads access neighbouring memory in every array.
inline constexpr std::size_t access_bytes = 16;
template <class... T>
inline constexpr std::size_t device_pack =
    ((access_bytes % sizeof(T) == 0) && ...) ? access_bytes / std::max({sizeof(T)...}) : 1;

// The unit of one load or store instruction. It may alias elements of any type.
template <class Word, int Words>
struct [[gnu::may_alias]] alignas(Words * sizeof(Word)) words {
  Word of[Words];
};
template <std::size_t Bytes>
using words_of = std::conditional_t<Bytes % 4 == 0, words<std::uint32_t, Bytes / 4>, words<std::uint16_t, 1>>;

// nvcc splits the store of a struct into words, so wide stores are written in assembly.
template <class Word, int Words>
TUTTI_HOST_DEVICE inline void store_words(void* to, words<Word, Words> const& x) {
#if defined(__CUDA_ARCH__)
  if constexpr (Words == 4) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(x.of[0]),
                 "r"(x.of[1]), "r"(x.of[2]), "r"(x.of[3])
                 : "memory");
  } else if constexpr (Words == 2) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(x.of[0]), "r"(x.of[1])
                 : "memory");
  } else
#endif
    *static_cast<words<Word, Words>*>(to) = x;
}

// Whether such a pack of elements can be accessed at once.
template <std::size_t Elements, class T>
TUTTI_HOST_DEVICE bool is_aligned_for(T const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (Elements * sizeof(T)) == 0;
}

// N elements from `at` on: a pack in one access, otherwise one by one.
template <std::size_t N, class Source, class T>
TUTTI_HOST_DEVICE inline void load_elements(Source source, std::size_t at, T (&to)[N]) {
  if constexpr (N > 1 && std::is_pointer_v<Source>) {
    auto const pack = *reinterpret_cast<words_of<sizeof to> const*>(source + at);
    std::memcpy(static_cast<void*>(to), &pack, sizeof to);
  } else {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) to[i] = source[static_cast<std::ptrdiff_t>(at + i)];
  }
}

// The same of memory of a device, past the cache of the multiprocessor.
template <std::size_t N, class Source, class T>
TUTTI_HOST_DEVICE inline void load_past_first_cache(Source source, std::size_t at, T (&to)[N]) {
#if defined(__CUDA_ARCH__)
  if constexpr (N > 1 && std::is_pointer_v<Source> && sizeof to == access_bytes) {
    words<std::uint32_t, 4> pack;
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.of[0]), "=r"(pack.of[1]), "=r"(pack.of[2]), "=r"(pack.of[3])
                 : "l"(__cvta_generic_to_global(source + at))
                 : "memory");
    std::memcpy(static_cast<void*>(to), &pack, sizeof to);
  } else
#endif
    load_elements<N>(source, at, to);
}

// The low word of two words that are shifted right as one.
TUTTI_HOST_DEVICE inline std::uint32_t funnel_shift(std::uint32_t low, std::uint32_t high, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
#endif
}
// N elements, which may begin at any element, from the two aligned packs around them. The second is not read if the first has them all.
template <std::size_t N, class T>
TUTTI_HOST_DEVICE inline void load_around(T const* from, T (&to)[N]) {
  constexpr std::size_t bytes = sizeof to;
  constexpr int count = static_cast<int>(bytes / sizeof(std::uint32_t));
  static_assert(bytes % sizeof(std::uint32_t) == 0);
  using pack = words<std::uint32_t, count>;
  std::uintptr_t const address = reinterpret_cast<std::uintptr_t>(from);
  unsigned const offset = static_cast<unsigned>(address % bytes);
  auto const* const packs = reinterpret_cast<pack const*>(address - offset);
  pack const first = packs[0];
  pack const second = offset != 0 ? packs[1] : first;
  std::uint32_t all[2 * count];
  TUTTI_UNROLL
  for (int i = 0; i < count; ++i) all[i] = first.of[i], all[count + i] = second.of[i];
  // By whole words, a power of two at a time, so that no index depends on the address; then by bytes.
  TUTTI_UNROLL
  for (int step = count / 2; step > 0; step /= 2) {
    bool const moves = (offset / 4 & static_cast<unsigned>(step)) != 0;
    TUTTI_UNROLL
    for (int i = 0; i + step < 2 * count; ++i) all[i] = moves ? all[i + step] : all[i];
  }
  pack out;
  TUTTI_UNROLL
  for (int i = 0; i < count; ++i) out.of[i] = funnel_shift(all[i], all[i + 1], offset % 4 * 8);
  std::memcpy(static_cast<void*>(to), &out, bytes);
}

template <std::size_t N, class T>
TUTTI_HOST_DEVICE inline void store_elements(T* to, T const (&from)[N]) {
  if constexpr (N > 1) {
    words_of<sizeof from> pack;
    std::memcpy(&pack, from, sizeof from);
    store_words(to, pack);
  } else {
    *to = from[0];
  }
}

// N elements, of which the first `count`, and at least one, are in memory: in one access if `aligned`, and then all are. The others
// become copies of the first, because functions of the program that are called with all N must not see values that no rank passed.
template <std::size_t N, class T>
TUTTI_HOST_DEVICE inline void load_some(T const* from, std::size_t count, bool aligned, T (&to)[N]) {
  if (aligned) return load_elements<N>(from, 0, to);
  to[0] = from[0];
  TUTTI_UNROLL
  for (std::size_t i = 1; i < N; ++i) to[i] = i < count ? from[i] : to[0];
}
template <std::size_t N, class T>
TUTTI_HOST_DEVICE inline void store_some(T* to, std::size_t count, bool aligned, T const (&from)[N]) {
  if (aligned) return store_elements<N>(to, from);
  TUTTI_UNROLL
  for (std::size_t i = 0; i < N; ++i)
    if (i < count) to[i] = from[i];
}

}  // namespace tutti::detail
