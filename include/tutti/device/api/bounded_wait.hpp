// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The wait of a kernel of the program for another rank, which ends after a time or once all ranks give up.
#pragma once

#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/device/api/window_map.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/model/fault_copy.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/device/model/kernel_report.hpp"

namespace tutti::detail {

// Reports to the host, unless this rank has reported before.
TUTTI_HOST_DEVICE inline void report_first(window_map const& map, kernel_report const& said) {
  if (load_host_word(*map.report) == 0) store_host_word(*map.report, said.word());
}

class bounded_wait {
 public:
  TUTTI_HOST_DEVICE bounded_wait(window_map const& map, int rank, int peer) : map_(map), rank_(rank), peer_(peer) {}

  // Call after a poll without success. Returns whether to poll again; reports the peer if its time is up.
  TUTTI_HOST_DEVICE bool keep_polling() {
    std::uint64_t const now = nanoseconds_now();
    if (began_ == 0) began_ = now;
    if (look_.due(now) && map_.seen(rank_).look(*map_.fault, now)) return false;
    if (fault_copy::passed_until(now, began_) > static_cast<std::int64_t>(map_.limit)) {
      report_first(map_, {kernel_report::missing, rank_, peer_, limit_in_hundredths()});
      return false;
    }
    let_other_blocks_run();
    return true;
  }

 private:
  TUTTI_HOST_DEVICE std::uint32_t limit_in_hundredths() const {
    constexpr std::uint64_t hundredth = 10'000'000;  // ns
    std::uint64_t const out = (map_.limit + hundredth - 1) / hundredth;
    return static_cast<std::uint32_t>(out < kernel_report::most ? out : kernel_report::most);
  }

  window_map const& map_;
  int rank_, peer_;
  std::uint64_t began_ = 0;
  interval_timer look_;
};

}  // namespace tutti::detail
