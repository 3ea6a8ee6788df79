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
  std::uint64_t looked;  // the time of the last read
  std::uint32_t raised;  // not 0 once all ranks give up

  static constexpr std::int64_t interval = 20'000;  // ns

  // Negative if another thread has read its clock later, or the clock was set back.
  TUTTI_HOST_DEVICE static std::int64_t passed_until(std::uint64_t now, std::uint64_t then) {
    return static_cast<std::int64_t>(now - then);
  }
  // Whether one has found a fault.
  TUTTI_HOST_DEVICE bool known() const { return load_host_word(raised) != 0; }
  // The same; reads the word if no thread has done so for that long.
  TUTTI_HOST_DEVICE bool look(std::uint32_t const& fault, std::uint64_t now) {
    if (known()) return true;
    if (passed_until(now, load_word<flag_scope::device>(looked)) < interval) return false;
    if (passed_until(now, exchange_word(looked, now)) < interval) return false;
    std::uint32_t const found = load_host_word(fault);
    if (found != 0) store_host_word(raised, found);
    return found != 0;
  }
};

// Tells a loop that polls when to look for a fault.
class interval_timer {
 public:
  TUTTI_HOST_DEVICE void restart() { began_ = 0; }
  // Whether an interval has passed since this was last true, or since the first call.
  TUTTI_HOST_DEVICE bool due(std::uint64_t now) {
    if (began_ == 0) began_ = now;
    if (fault_copy::passed_until(now, began_) <= fault_copy::interval) return false;
    began_ = now;
    return true;
  }

 private:
  std::uint64_t began_ = 0;
};

}  // namespace tutti::detail
