// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packets whose flags say to which call or round they belong, so that no other flag or fence announces their data.
#pragma once

#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti::detail {

// Marks the packets of a call or round, whose number grows for ever from 1. Each word of a packet has 4 bytes of data below a flag of 4.
// Both flags together are the whole number, so the packet of no other number looks like one of this number; and neither is ever 0, as
// memory is at first. If a device moves the words one by one, each still differs from the one that it replaces, unless 2^32 - 1 numbers
// lie between them.
class packet_mark {
 public:
  TUTTI_HOST_DEVICE explicit packet_mark(std::uint64_t number) {
    constexpr std::uint64_t flags = 0xffffffff;  // from 1 on
    flags_[0] = (number % flags + 1) << 32;
    flags_[1] = ((number % flags + number / flags) % flags + 1) << 32;
  }

  TUTTI_HOST_DEVICE word_pair on(std::uint32_t first, std::uint32_t second) const {
    return {{flags_[0] | first, flags_[1] | second}};
  }
  TUTTI_HOST_DEVICE bool is_on(word_pair const& packet) const {
    return packet.of[0] >> 32 == flags_[0] >> 32 && packet.of[1] >> 32 == flags_[1] >> 32;
  }

 private:
  std::uint64_t flags_[2];
};

}  // namespace tutti::detail
