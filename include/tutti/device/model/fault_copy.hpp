// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How kernels learn that all ranks give up.
#pragma once

#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti::detail {

// What a device knows of the fault word, which is in host memory. A GPU reads host memory for one warp after the other, a microsecond
// each, so threads that wait do not all read the word: once in a while one does, for all of them. In device memory, 0 at first.
struct fault_copy {
  std::uint64_t looked;  // when one did
  std::uint32_t raised;  // not 0 once all ranks give up

  static constexpr std::uint64_t interval = 20'000;  // ns

  // Whether one has found a fault.
  TUTTI_HOST_DEVICE bool known() const { return load_host_word(raised) != 0; }
  // The same, of late: reads the word if nobody has for that long.
  TUTTI_HOST_DEVICE bool look(std::uint32_t const& fault, std::uint64_t now) {
    if (known()) return true;
    if (now - load_word<flag_scope::device>(looked) < interval || now - exchange_word(looked, now) < interval) return false;
    if (load_host_word(fault) == 0) return false;
    store_host_word(raised, 1);
    return true;
  }
};

}  // namespace tutti::detail
