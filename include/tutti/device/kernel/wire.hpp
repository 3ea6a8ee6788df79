// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of elements that travel as another type, on a device: a warp handles a block, and its lanes find the scale together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/device/kernel/combine.hpp"
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
#else
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
  TUTTI_HOST_DEVICE element* elements(std::size_t block) const {
    return reinterpret_cast<element*>(at) + block * Format::block;
  }
  TUTTI_HOST_DEVICE std::uint8_t* scale(std::size_t block) const {
    return reinterpret_cast<std::uint8_t*>(at + blocks * Format::block * sizeof(element)) + block;
  }
};

// The elements of a block that a lane holds: packs of 4, with those of the other lanes between them, so that a warp accesses
// neighbouring memory at once.
template <class Format, int Lanes>
struct wire_lane {
  static constexpr std::size_t pack = 4, packs = Format::block / pack / Lanes;
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

  TUTTI_HOST_DEVICE void encode(blocks const& to, std::size_t block) const {
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
      if (lane == 0) *to.scale(block) = scale;
    }
    TUTTI_UNROLL
    for (std::size_t p = 0; p < packs; ++p) {
      element narrow[pack];
      TUTTI_UNROLL
      for (std::size_t k = 0; k < pack; ++k) {
        if constexpr (Format::scaled) narrow[k] = Format::encode(values[p][k], inverse);
        else narrow[k] = narrowed<element>(values[p][k]);
      }
      store_elements<pack>(to.elements(block) + at(p), narrow);
    }
  }

  // Replaces the values by op(...op(x0, x1)..., xn), where xk are those of from(k). Several sources are loaded before the first is
  // combined.
  template <class From, class Op>
  TUTTI_HOST_DEVICE void combine(int sources, From const& from, std::size_t block, Op const& op) {
    constexpr int at_once = packs == 1 ? 8 : 4;
    for (int begin = 0; begin < sources; begin += at_once) {
      element loaded[at_once][packs][pack];
      std::uint8_t scale[at_once];
      TUTTI_UNROLL
      for (int k = 0; k < at_once; ++k) {
        if (begin + k >= sources) break;
        blocks const source = from(begin + k);
        if constexpr (Format::scaled) scale[k] = *source.scale(block);
        TUTTI_UNROLL
        for (std::size_t p = 0; p < packs; ++p)
          load_elements<pack>(static_cast<element const*>(source.elements(block)), at(p), loaded[k][p]);
      }
      TUTTI_UNROLL
      for (int k = 0; k < at_once; ++k) {
        if (begin + k >= sources) break;
        float factor = 1;
        if constexpr (Format::scaled) factor = Format::factor(scale[k]);
        TUTTI_UNROLL
        for (std::size_t p = 0; p < packs; ++p) {
          TUTTI_UNROLL
          for (std::size_t i = 0; i < pack; ++i) {
            float x = widened<float>(loaded[k][p][i]);
            if constexpr (Format::scaled) x *= factor;
            values[p][i] = begin + k == 0 ? x : static_cast<float>(op(values[p][i], x));
          }
        }
      }
    }
  }
};

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

template <std::size_t Elements, class T>
TUTTI_HOST_DEVICE bool is_aligned_for(T const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (Elements * sizeof(T)) == 0;
}

}  // namespace tutti::detail
