// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a message with a tag begins with on its way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// message   all of it: a head, and its bytes
// offer     of a message that waits at its sender, who can be read there unless `address` is 0
// shown     of one in memory that all ranks address; `address` is its place there
// request   the receiver of an offer asks for slices
// slice     some of what was asked for, in order
// taken     the receiver of an offer has read it, and wants no more slices if it has asked for any
// room      there is news of room alone
// name      of a type, for ranks that cannot look it up
enum class message_kind : std::uint8_t { message, offer, shown, request, slice, taken, room, name };

struct message_head {
  message_kind kind{};
  std::uint32_t length : 24 = 0;  // of all that is sent, this head included
  std::uint32_t room = 0;         // bytes that its sender has free again, of those that it keeps for the receiver
  std::int32_t tag = 0;
  std::uint32_t type = 0;
  std::uint64_t id = 0;       // of the transfer: the sender's in an offer, else that of the other end
  std::uint64_t partner = 0;  // in a request: the receiver's
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;

  static constexpr std::uint32_t longest = (1u << 24) - 1;
  // What is sent of it before the bytes of a message, and of a slice.
  static constexpr std::size_t before_message = 16, before_slice = 24;
};
static_assert(sizeof(message_head) <= inline_bytes);
static_assert(offsetof(message_head, id) == message_head::before_message &&
              offsetof(message_head, partner) == message_head::before_slice);

}  // namespace tutti::detail
