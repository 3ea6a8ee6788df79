// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of each tagged message on the wire.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// eager         a whole message: head and payload
// offer         starts a rendezvous: the payload stays at the sender; unless `address` is 0, the receiver may read it there
// shared_offer  the same for a payload in memory that all ranks map, at shared address `address`
// device_offer  the same for a payload in memory of a device, at place `address`, which its receiver fetches by itself
// request       the receiver of an offer requests slices
// slice         the next part of a requested payload
// taken         the receiver has read the payload of an offer and ignores further slices
// credit        carries nothing but returned credit
// name          the name of a type, for ranks that share no table of names
enum class message_kind : std::uint8_t {
  eager,
  offer,
  shared_offer,
  request,
  slice,
  taken,
  credit,
  name,
  device_offer
};

struct message_head {
  message_kind kind{};
  std::uint32_t length : 24 = 0;  // bytes on the wire, this head included
  std::uint32_t credit = 0;       // bytes of eager buffer that the sender of this head returns to the receiver
  std::int32_t tag = 0;
  std::uint32_t type = 0;
  std::uint64_t id = 0;       // of the transfer: in an offer the sender's, otherwise that of the addressee
  std::uint64_t partner = 0;  // in a request: the transfer of the receiver
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;

  static constexpr std::uint32_t max_length = (1u << 24) - 1;
  // `kind` and `length` as they lie in memory.
  static constexpr std::uint32_t first_word(message_kind kind, std::uint32_t length) noexcept {
    auto const k = static_cast<std::uint32_t>(kind);
    return std::endian::native == std::endian::little ? k | length << 8 : k << 24 | (length & max_length);
  }
  // The part of the head that precedes the payload of an eager message, and of a slice.
  static constexpr std::size_t eager_head_bytes = 16, slice_head_bytes = 24;

  // Whether a message of so many bytes can have this head. One that does not is damaged.
  bool fits(std::size_t bytes_on_the_wire) const noexcept {
    switch (kind) {
      case message_kind::eager: return bytes_on_the_wire >= eager_head_bytes;
      case message_kind::slice: return bytes_on_the_wire >= slice_head_bytes;
      case message_kind::offer:
      case message_kind::shared_offer:
      case message_kind::device_offer:
      case message_kind::request:
      case message_kind::taken:
      case message_kind::credit:
      case message_kind::name: return bytes_on_the_wire >= sizeof(message_head);
    }
    return false;
  }
};
static_assert(sizeof(message_head) <= inline_bytes);
static_assert(offsetof(message_head, id) == message_head::eager_head_bytes &&
              offsetof(message_head, partner) == message_head::slice_head_bytes);

}  // namespace tutti::detail
