// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel of the program reports to the host when it gives up: one word of host memory, which is 0 before.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

struct kernel_report {
  enum kinds : std::uint32_t {
    missing = 1,  // `peer` did not come within `amount` hundredths of a second
    no_peer,      // `amount` is the number of a rank that does not exist
    no_block,     // `amount` is the index of a block that the window does not serve
    no_packets,   // an exchange of `amount` packets is longer than the window allows
    no_room,      // elements beyond the end of the window of `peer`
  };
  kinds kind;
  int rank, peer;
  std::uint32_t amount;

  static constexpr std::uint32_t most = 0xffff;

  TUTTI_HOST_DEVICE std::uint32_t word() const {
    return kind | static_cast<std::uint32_t>(rank & 63) << 4 | static_cast<std::uint32_t>(peer & 63) << 10 |
           (amount < most ? amount : most) << 16;
  }
  static kernel_report from(std::uint32_t word) {
    return {static_cast<kinds>(word & 15), static_cast<int>(word >> 4 & 63), static_cast<int>(word >> 10 & 63),
            word >> 16};
  }

  // What to do about all but a missing peer.
  static constexpr char const* correction = "correct the kernel, or open a window that is large enough";

  error_code code() const { return kind == missing ? error_code::timeout : error_code::bad_argument; }
  std::string text() const {
    std::string const who = join({"a kernel of rank ", rank});
    switch (kind) {
      case missing: return join({who, " waited ", amount / 100.0, " s in vain for rank ", peer});
      case no_peer:
        return amount == most ? who + " addressed a rank that does not exist"
                              : join({who, " addressed rank ", amount, ", which its window does not have"});
      case no_block:
        return join({who, " used block ", amount, " of a window that was opened for fewer (window_options::blocks)"});
      case no_packets:
        return join({who, " exchanged ", amount, amount == most ? " packets or more" : " packets",
                     " at once, for which its window has no room (window_options::packets)"});
      case no_room: return join({who, " accessed elements beyond the end of the window of rank ", peer});
    }
    return join({who, " gave up"});
  }
};

}  // namespace tutti::detail
