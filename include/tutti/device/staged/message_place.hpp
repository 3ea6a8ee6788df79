// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the data of a message are, as its sender tells the receiver in one word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/device/model/numbered_place.hpp"

namespace tutti::detail {

class message_place {
 public:
  // Nowhere: the message carries its data.
  constexpr message_place() = default;
  // As received.
  constexpr explicit message_place(std::uint64_t word) : word_{word} {}
  // At a byte of a memory that both ranks know by its number.
  static constexpr message_place in_memory(std::size_t number, std::size_t offset) {
    return message_place(numbered_place{number, offset}.word());
  }
  // Of a message from a rank to itself.
  static message_place at_address(void const* data) { return message_place(reinterpret_cast<std::uintptr_t>(data)); }
  // The sender gives the message to NCCL instead.
  static constexpr message_place by_nccl(std::uint64_t number) { return message_place(nccl_bit | number); }

  constexpr std::uint64_t word() const { return word_; }
  constexpr explicit operator bool() const { return word_ != 0; }

  constexpr bool is_by_nccl() const { return (word_ & nccl_bit) != 0; }
  constexpr std::uint64_t nccl_number() const { return word_ & ~nccl_bit; }
  constexpr std::size_t memory() const { return numbered_place::of(word_).number; }
  constexpr std::size_t offset() const { return numbered_place::of(word_).offset; }
  std::byte const* address() const { return reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(word_)); }

 private:
  static constexpr std::uint64_t nccl_bit = std::uint64_t{1} << 63;

  std::uint64_t word_ = 0;
};

}  // namespace tutti::detail
