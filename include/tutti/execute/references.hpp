// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that peers read in place and may still be reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// A message that refers to memory, and the memory.
struct reference {
  int peer;
  int track;
  std::uint64_t message;
  void const* begin;
  void const* end;
};

// The references of the running call: kept by the communicator, so that a call allocates nothing once the list has grown.
class reference_list {
 public:
  void reserve(std::size_t count) { list_.reserve(count); }
  void clear() noexcept { list_.clear(); }
  bool empty() const noexcept { return list_.empty(); }

  // The list has room for a reference in every slot of every channel, so a full list holds some that can be forgotten.
  template <maps_memory Transport>
  void add(Transport& transport, reference const& added) noexcept {
    if (list_.size() == list_.capacity())
      for (std::size_t i = 0; i < list_.size();) {
        if (is_read(transport, list_[i])) forget(i);
        else ++i;
      }
    list_.push_back(added);
  }

  // Whether peers have read everything that this rank has shown them. Forgets what they have read.
  template <maps_memory Transport>
  bool all_read(Transport& transport) noexcept {
    return all_read(transport, [](reference const&) { return true; });
  }
  // The same for [begin, end).
  template <maps_memory Transport>
  bool all_read(Transport& transport, void const* begin, void const* end) noexcept {
    return all_read(transport, [=](reference const& r) { return begin < r.end && r.begin < end; });
  }

 private:
  template <class Transport>
  static bool is_read(Transport& transport, reference const& r) noexcept {
    return transport.consumed(r.peer, r.track, r.message);
  }
  void forget(std::size_t i) noexcept {
    list_[i] = list_.back();
    list_.pop_back();
  }
  template <class Transport, class Counts>
  bool all_read(Transport& transport, Counts&& counts) noexcept {
    for (std::size_t i = 0; i < list_.size();) {
      reference const& r = list_[i];
      if (!counts(r)) {
        ++i;
      } else if (is_read(transport, r)) {
        forget(i);
      } else {
        return false;
      }
    }
    return true;
  }

  std::vector<reference> list_;
};

}  // namespace tutti::detail
