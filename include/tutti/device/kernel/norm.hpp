// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sum of squares of some arrays on a device, in an order that depends on their lengths alone.
#pragma once

#include <cmath>
#include <cstddef>

#include "tutti/core/partition.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/convert.hpp"

namespace tutti::detail {

inline constexpr std::size_t norm_chunk = 16384;  // elements that a block sums at a time

struct add_doubles {
  TUTTI_HOST_DEVICE double operator()(double a, double b) const { return a + b; }
};

// Stores the sum of squares of each chunk of some arrays. Those of a pack are added in float, all else in double, which adds a
// number for each 16 bytes that are read.
template <class T>
struct squares_work {
  static constexpr int most = 64;  // arrays
  static constexpr int blocks_together = 4;

  T const* arrays[most];
  std::size_t lengths[most];
  std::size_t first_chunks[most + 1];  // of the chunks of all arrays
  int count, blocks;
  double* sums;

  template <class Group>
  struct room {
    typename Group::template reduction<double> sum;
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    int array = 0;
    TUTTI_NO_UNROLL
    for (auto chunk = static_cast<std::size_t>(group.block()); chunk < first_chunks[count];
         chunk += static_cast<std::size_t>(blocks)) {
      while (chunk >= first_chunks[array + 1]) ++array;
      extent const part = slice_of(lengths[array], norm_chunk, chunk - first_chunks[array]);
      double const sum =
          shared.sum.of_all(group, squares(group, arrays[array] + part.begin, part.count), add_doubles{});
      if (group.rank() == 0) sums[chunk] = sum;
    }
  }

 private:
  static constexpr int packs_in_flight = 4;  // loaded before the first is squared

  template <class Group>
  TUTTI_HOST_DEVICE static double squares(Group const& group, T const* from, std::size_t n) {
    constexpr std::size_t pack = device_pack<T>;
    bool const aligned = is_aligned_for<pack>(from);
    std::size_t const stride = static_cast<std::size_t>(group.size()) * pack;
    double out = 0;
    TUTTI_NO_UNROLL
    for (std::size_t at = static_cast<std::size_t>(group.rank()) * pack; at < n; at += packs_in_flight * stride) {
      T values[packs_in_flight][pack];
      std::size_t counts[packs_in_flight];
      TUTTI_UNROLL
      for (int p = 0; p < packs_in_flight; ++p) {
        std::size_t const here = at + static_cast<std::size_t>(p) * stride;
        counts[p] = here >= n ? 0 : n - here < pack ? n - here : pack;
        load_some<pack>(from + (here < n ? here : at), counts[p], aligned && counts[p] == pack, values[p]);
      }
      TUTTI_UNROLL
      for (int p = 0; p < packs_in_flight; ++p) {
        float of_pack = 0;
        TUTTI_UNROLL
        for (std::size_t i = 0; i < pack; ++i) {
          float const x = widened<float>(values[p][i]);
          if (i < counts[p]) of_pack += x * x;
        }
        out += double{of_pack};
      }
    }
    return out;
  }
};

// Adds up sums, in an order that depends on their number alone, for one block. Stores the total, or if there is none to store, the
// norm and the factor that limits it.
struct norm_work {
  static constexpr int blocks_together = 4;

  double const* sums;
  std::size_t count;
  double* total;  // or null
  float *norm, *factor;
  float limit;

  template <class Group>
  struct room {
    typename Group::template reduction<double> sum;
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    double mine = 0;
    for (auto i = static_cast<std::size_t>(group.rank()); i < count; i += static_cast<std::size_t>(group.size()))
      mine += sums[i];
    double const all = shared.sum.of_all(group, mine, add_doubles{});
    if (group.rank() != 0) return;
    if (total != nullptr) {
      *total = all;
      return;
    }
    *norm = static_cast<float>(std::sqrt(all));
    float const by = limit / (*norm + 1e-6f);
    *factor = by >= 1 ? 1 : by;  // NaN stays NaN
  }
};

}  // namespace tutti::detail
