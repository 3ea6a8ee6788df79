// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shape of a call and arithmetic with ranks, which every layer shares.
#pragma once

#include "tutti/core/config.hpp"

namespace tutti {

// The maximal number of ranks on one machine, and of peers in a step: a fan-in keeps as many pointers on the stack. Over MPI there may
// be more ranks, for which schedules with steps of that many peers are not used.
inline constexpr int max_ranks = 1024;

// The properties of a call that a schedule depends on. `ordered` asks for contributions to be combined in rank order,
// because the operation is not commutative; a schedule that cannot do that declares needs_commutative and is not used.
struct shape {
  int ranks = 1;
  int root = 0;
  bool ordered = false;

  friend constexpr bool operator==(shape const&, shape const&) = default;
};

// Identifies a cursor of a collective: a rank runs one for each phase of each lane.
struct position {
  int rank = 0;
  int lane = 0;
  int phase = 0;
};

// x modulo n, in [0, n) for every x.
TUTTI_HOST_DEVICE constexpr int wrap(int x, int n) {
  if (x >= 0 && x < n) return x;  // the common case; a division takes 20 cycles
  int const m = x % n;
  return m < 0 ? m + n : m;
}

// The number of doublings that reach n: the least k with 2^k >= n.
TUTTI_HOST_DEVICE constexpr int log2_ceil(int n) {
  int k = 0;
  while ((1 << k) < n) ++k;
  return k;
}

// The largest power of two that is not above n (n >= 1).
TUTTI_HOST_DEVICE constexpr int power_below(int n) {
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

}  // namespace tutti
