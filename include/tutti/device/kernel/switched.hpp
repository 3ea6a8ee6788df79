// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums that the switch between GPUs computes: an address of the memory of all ranks names the same element of each. A load returns
// their sum, a store writes all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/reduce/arithmetic.hpp"
#include "tutti/reduce/determinism.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti::detail {

// Whether the switch can do the whole work of a call.
template <class In, class Out, class Op>
inline constexpr bool sums_by_switch = false;
template <class T>
inline constexpr bool sums_by_switch<T, T, in_any_order<sum>> =
    std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool sums_by_switch<T, T, fused<in_any_order<sum>>> = sums_by_switch<T, T, in_any_order<sum>>;

// Whether this code is compiled for GPUs that have the instructions. If it is not, the host does not ask for the switch.
TUTTI_HOST_DEVICE constexpr bool has_switch_instructions() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return true;
#else
  return false;
#endif
}

// What one instruction moves.
using switched_pack = words<std::uint32_t, 4>;

// Sums of narrow types are computed in float and rounded by the switch. Call fence_aliases() after the acquire that makes peers' stores
// visible: the multicast address and the ranks' own addresses are aliases, which the memory model orders only by fence.proxy.alias.
template <class T>
TUTTI_HOST_DEVICE inline switched_pack load_sum(T const* everywhere) {
  switched_pack out{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::size_t const at = __cvta_generic_to_global(everywhere);
  if constexpr (std::is_same_v<T, float>)
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.of[0]), "=r"(out.of[1]), "=r"(out.of[2]), "=r"(out.of[3])
                 : "l"(at)
                 : "memory");
  else if constexpr (std::is_same_v<T, half>)
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.of[0]), "=r"(out.of[1]), "=r"(out.of[2]), "=r"(out.of[3])
                 : "l"(at)
                 : "memory");
  else
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.of[0]), "=r"(out.of[1]), "=r"(out.of[2]), "=r"(out.of[3])
                 : "l"(at)
                 : "memory");
#else
  static_cast<void>(everywhere);  // the host launches no such work then
#endif
  return out;
}
TUTTI_HOST_DEVICE inline void store_everywhere(void* everywhere, switched_pack const& x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(everywhere)),
      "r"(x.of[0]), "r"(x.of[1]), "r"(x.of[2]), "r"(x.of[3])
      : "memory");
#else
  static_cast<void>(everywhere), static_cast<void>(x);
#endif
}
// Between accesses of a thread by this address and by others.
TUTTI_HOST_DEVICE inline void fence_aliases() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.alias;" ::: "memory");
#endif
}

// Sums `count` packs of all ranks, for all ranks.
template <class T, class Group>
TUTTI_HOST_DEVICE inline void sum_by_switch(Group const& group, T const* from, T* to, std::size_t packs) {
  constexpr std::size_t length = sizeof(switched_pack) / sizeof(T), together = 4;  // loads in flight
  auto const size = static_cast<std::size_t>(group.size());
  fence_aliases();
  TUTTI_NO_UNROLL
  for (std::size_t first = static_cast<std::size_t>(group.rank()); first < packs; first += together * size) {
    switched_pack sums[together];
    TUTTI_UNROLL
    for (std::size_t k = 0; k < together; ++k)
      if (first + k * size < packs) sums[k] = load_sum(from + (first + k * size) * length);
    TUTTI_UNROLL
    for (std::size_t k = 0; k < together; ++k)
      if (first + k * size < packs) store_everywhere(to + (first + k * size) * length, sums[k]);
  }
  fence_aliases();
}

}  // namespace tutti::detail
