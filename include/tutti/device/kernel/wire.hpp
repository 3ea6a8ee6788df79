// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of elements that travel as another type, on a device: a warp handles a block, and its lanes find the scale together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/core/config.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/half.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

// The greatest x of the lanes of a warp, which all call it.
template <int Lanes>
TUTTI_HOST_DEVICE inline std::uint32_t greatest_of_warp(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  TUTTI_UNROLL
  for (int apart = Lanes / 2; apart > 0; apart /= 2) {
    std::uint32_t other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(x), "r"(apart));
    x = x < other ? other : x;
  }
#elif !defined(__CUDACC__)  // a compiler of kernels compiles this for the host too, where nobody calls it
  static_assert(Lanes == 1, "on the host, a thread handles a block alone");
#endif
  return x;
}

// Encoded blocks in memory.
template <class Format>
struct wire_blocks {
  std::byte* at;
  std::size_t blocks;

  using element = typename Format::element;
  // Of the block that begins with this element.
  TUTTI_HOST_DEVICE element* elements(std::size_t begin) const { return reinterpret_cast<element*>(at) + begin; }
  TUTTI_HOST_DEVICE std::uint8_t* scale(std::size_t begin) const {
    return reinterpret_cast<std::uint8_t*>(at + blocks * Format::block * sizeof(element)) + begin / Format::block;
  }
};

// The elements of a block that a lane holds: packs of 4, with those of the other lanes between them, so that a warp accesses
// neighbouring memory at once.
template <class Format, int Lanes>
struct wire_lane {
  static constexpr std::size_t block = Format::block, pack = 4, packs = block / pack / Lanes;
  using element = typename Format::element;
  using blocks = wire_blocks<Format>;

  int lane;
  float values[packs][pack]{};

  TUTTI_HOST_DEVICE std::size_t at(std::size_t p) const { return (p * Lanes + static_cast<std::size_t>(lane)) * pack; }

  // Calls f(i, elements from the i-th on) for those of the first `count` elements that this lane holds: by packs if these are
  // aligned for f.
  template <class F>
  TUTTI_HOST_DEVICE void for_each(std::size_t count, bool aligned, F const& f) {
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p) {
      std::size_t const first = at(p);
      if (aligned && first + pack <= count) {
        f(first, values[p]);
        continue;
      }
      TUTTI_UNROLL
      for (std::size_t k = 0; k < pack; ++k) {
        float one[1] = {values[p][k]};
        if (first + k < count) f(first + k, one);
        values[p][k] = one[0];
      }
    }
  }

  // Replaces the values that come after the first `count`, with which a message ends.
  TUTTI_HOST_DEVICE void pad(std::size_t count, float by) {
    if (count == block) return;
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p) {
      TUTTI_UNROLL
      for (std::size_t k = 0; k < pack; ++k)
        if (at(p) + k >= count) values[p][k] = by;
    }
  }

  TUTTI_HOST_DEVICE void encode(blocks const& to, std::size_t begin) const {
    float inverse = 1;
    if constexpr (Format::scaled) {
      std::uint32_t largest = 0;
      TUTTI_UNROLL
      for (std::size_t p = 0; p < packs; ++p) {
        TUTTI_UNROLL
        for (std::size_t k = 0; k < pack; ++k) {
          std::uint32_t const x = Format::magnitude(values[p][k]);
          largest = largest < x ? x : largest;
        }
      }
      std::uint8_t const scale = Format::scale_for(greatest_of_warp<Lanes>(largest));
      inverse = Format::inverse(scale);
      if (lane == 0) *to.scale(begin) = scale;
    }
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p) {
      element narrow[pack];
      TUTTI_UNROLL
      for (std::size_t k = 0; k < pack; ++k) {
        if constexpr (Format::scaled) narrow[k] = Format::encode(values[p][k], inverse);
        else narrow[k] = narrowed<element>(values[p][k]);
      }
      store_elements<pack>(to.elements(begin) + at(p), narrow);
    }
  }

  // Replaces the values by op(...op(x0, x1)..., xn), where xk are those of the block in from(k). Several sources are loaded before
  // the first of them is combined.
  template <class From, class Op>
  TUTTI_HOST_DEVICE void combine(int sources, From const& from, std::size_t begin, Op const& op) {
    constexpr int at_once = packs == 1 ? 8 : 4;
    expect_for_device<float const, float const>(op);
    TUTTI_NO_UNROLL
    for (int first = 0; first < sources; first += at_once) {
      encoded loaded[at_once];
      TUTTI_UNROLL
      for (int k = 0; k < at_once; ++k)
        if (first + k < sources) loaded[k] = load(from(first + k), begin);
      TUTTI_UNROLL
      for (int k = 0; k < at_once; ++k) {
        if (first + k < sources)
          replace_by(loaded[k],
                     [&](float old, float x) { return first + k == 0 ? x : static_cast<float>(op(old, x)); });
      }
    }
  }
  TUTTI_HOST_DEVICE void decode(blocks const& from, std::size_t begin) {
    replace_by(load(from, begin), [](float, float x) { return x; });
  }

 private:
  using pack_words = words_of<pack * sizeof(element)>;
  struct encoded {
    pack_words of[packs];
    std::uint8_t scale;
  };
  TUTTI_HOST_DEVICE encoded load(blocks const& from, std::size_t begin) const {
    encoded out;
    if constexpr (Format::scaled) out.scale = *from.scale(begin);
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p)
      out.of[p] = *reinterpret_cast<pack_words const*>(from.elements(begin) + at(p));
    return out;
  }
  // Replaces each value by f(itself, the decoded one).
  template <class F>
  TUTTI_HOST_DEVICE void replace_by(encoded const& from, F const& f) {
    float factor = 1;
    if constexpr (Format::scaled) factor = Format::factor(from.scale);
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p) {
      element narrow[pack];
      std::memcpy(static_cast<void*>(narrow), &from.of[p], sizeof narrow);
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i) {
        float const x = widened<float>(narrow[i]);
        values[p][i] = f(values[p][i], Format::scaled ? x * factor : x);
      }
    }
  }
};

// The values become the contributions of this rank, of which `count` are in memory. The others become copies of the first: the
// operation of the program is called with all values of a block, and must not see any that no rank has passed.
template <class Lane, class In, class Before>
TUTTI_HOST_DEVICE void load_contributions(Lane& lane, In const* from, std::size_t count, Before const& before,
                                          int rank) {
  lane.for_each(count, is_aligned_for<Lane::pack>(from), [&]<std::size_t N>(std::size_t i, float(&to)[N]) {
    In loaded[N];
    load_elements<N>(from, i, loaded);
    TUTTI_UNROLL
    for (std::size_t k = 0; k < N; ++k) to[k] = contribution(before, rank, widened<float>(loaded[k]));
  });
  if (count < Lane::block) lane.pad(count, contribution(before, rank, widened<float>(from[0])));
}

// The first of the values is element `at` of the epilogue's arrays.
template <class Lane, class After>
TUTTI_HOST_DEVICE void apply_epilogue_to(Lane& lane, std::size_t count, After const& after, std::size_t at) {
  bool aligned = true;
  if constexpr (arrays_of<After> > 0)
    for (auto* const array : after.arrays) aligned = aligned && is_aligned_for<Lane::pack>(array + at);
  lane.pad(count, 0);  // without an epilogue, they could be the largest, and determine the scale of the block
  lane.for_each(count, aligned, [&]<std::size_t N>(std::size_t i, float(&all)[N]) {
    float result[N];
    apply_epilogue(after, at + i, all, result);
    TUTTI_UNROLL
    for (std::size_t k = 0; k < N; ++k) all[k] = result[k];
  });
}

template <class Lane, class Out>
TUTTI_HOST_DEVICE void store_values(Lane& lane, Out* to, std::size_t count) {
  lane.for_each(count, is_aligned_for<Lane::pack>(to), [to]<std::size_t N>(std::size_t i, float(&all)[N]) {
    Out result[N];
    TUTTI_UNROLL
    for (std::size_t k = 0; k < N; ++k) result[k] = narrowed<Out>(all[k]);
    store_elements<N>(to + i, result);
  });
}

// Calls f(job, block, lane) for every block of `jobs` pieces of `blocks` blocks each, which the warps of the group share.
template <class Format, block_group Group, class F>
TUTTI_HOST_DEVICE void for_wire_blocks(Group const& group, int jobs, std::size_t blocks, F const& f) {
  constexpr int lanes = Group::warp;
  auto const all = static_cast<std::uint32_t>(blocks) * static_cast<std::uint32_t>(jobs);
  auto const warps = static_cast<std::uint32_t>(group.size() / lanes);
  TUTTI_NO_UNROLL
  for (auto k = static_cast<std::uint32_t>(group.rank() / lanes); k < all; k += warps) {
    std::uint32_t const job = k / static_cast<std::uint32_t>(blocks);
    f(static_cast<int>(job), std::size_t{k - job * static_cast<std::uint32_t>(blocks)},
      wire_lane<Format, lanes>{group.rank() % lanes});
  }
}

}  // namespace tutti::detail
