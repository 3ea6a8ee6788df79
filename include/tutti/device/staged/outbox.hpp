// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of devices from which other ranks fetch messages: slots for slices, and memory that the program has registered.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/device/staged/message_place.hpp"

namespace tutti::detail {

// All ranks add the same memories in the same order, also while another thread drives messages. A message allocates and opens
// nothing, because that can mean to wait until a device is idle. If no slot is free, a slice goes by way of the host, so no message
// waits for another.
class message_outbox {
 public:
  // Messages of up to so many bytes go by way of the host, which keeps them until a receive matches them.
  static constexpr std::size_t max_bytes_by_host = std::size_t{16} << 10;
  static constexpr std::size_t slots = 8;

  explicit message_outbox(int rank) : rank_{rank} {}

  // `at`: the address of each rank's memory in this process; null for a rank whose memory this one cannot read. Which ranks read each
  // other's memory is the same for all memories.
  void add(std::size_t bytes, std::vector<std::byte*> at) {
    std::lock_guard const lock(guard_);
    memories_.push_back({bytes, std::move(at)});
  }
  // The same for memory of the slots, which comes first.
  void add_slots(std::size_t bytes, std::vector<std::byte*> at) {
    slot_bytes_ = bytes;
    for (std::size_t i = 0; i < slots; ++i) free_.push_back(slots - 1 - i);
    add(slots * bytes, std::move(at));
  }

  // Whether the peer can read such memory of this rank.
  bool reaches(int peer) const {
    std::lock_guard const lock(guard_);
    return peer == rank_ || shares_with(peer);
  }
  // The place of data of this rank that the peer can fetch as they are; nowhere if it cannot.
  message_place place_for(int peer, std::byte const* data, std::size_t bytes) const {
    if (peer == rank_) return message_place::at_address(data);
    std::lock_guard const lock(guard_);
    if (!shares_with(peer)) return {};
    for (std::size_t i = 1; i < memories_.size(); ++i) {
      std::byte const* const begin = memories_[i].of(rank_);
      if (begin <= data && data + bytes <= begin + memories_[i].bytes)
        return message_place::in_memory(i, static_cast<std::size_t>(data - begin));
    }
    return {};
  }
  // The address of data of rank `from`; null if this rank does not know the place.
  std::byte const* find(int from, message_place place, std::size_t bytes) const {
    if (place.is_by_nccl()) return nullptr;
    if (from == rank_) return place.address();
    std::size_t const number = place.memory(), offset = place.offset();
    std::lock_guard const lock(guard_);
    if (number >= memories_.size() || memories_[number].of(from) == nullptr) return nullptr;
    if (offset > memories_[number].bytes || bytes > memories_[number].bytes - offset) return nullptr;
    return memories_[number].of(from) + offset;
  }

  // A slot for a slice, until it is destroyed.
  class slot {
   public:
    slot() = default;
    slot(std::shared_ptr<message_outbox> owner, std::size_t number, std::byte* data)
        : owner_{std::move(owner)}, number_{number}, data_{data} {}
    slot(slot&& other) noexcept : owner_{std::move(other.owner_)}, number_{other.number_}, data_{other.data_} {}
    slot& operator=(slot other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(number_, other.number_);
      std::swap(data_, other.data_);
      return *this;
    }
    ~slot() {
      if (owner_) owner_->put_back(number_);
    }

    explicit operator bool() const { return owner_ != nullptr; }
    std::byte* data() const { return data_; }
    message_place place() const { return message_place::in_memory(0, number_ * owner_->slot_bytes_); }

   private:
    std::shared_ptr<message_outbox> owner_;
    std::size_t number_ = 0;
    std::byte* data_ = nullptr;
  };
  // None if all are in use.
  static slot take_slot(std::shared_ptr<message_outbox> const& from) {
    std::lock_guard const lock(from->guard_);
    if (from->free_.empty()) return {};
    std::size_t const number = from->free_.back();
    from->free_.pop_back();
    return {from, number, from->memories_[0].of(from->rank_) + number * from->slot_bytes_};
  }

 private:
  struct memory {
    std::size_t bytes;
    std::vector<std::byte*> at;

    std::byte* of(int rank) const { return at[static_cast<std::size_t>(rank)]; }
  };

  bool shares_with(int peer) const { return !memories_.empty() && memories_[0].of(peer) != nullptr; }
  void put_back(std::size_t number) {
    std::lock_guard const lock(guard_);
    free_.push_back(number);
  }

  int rank_;
  std::vector<memory> memories_;
  std::size_t slot_bytes_ = 0;
  mutable std::mutex guard_;
  std::vector<std::size_t> free_;  // slots
};

}  // namespace tutti::detail
