// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of shared memory: finds accesses that race, and restores the contents after an execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "explore/event.hpp"

namespace tutti::testing::explore {

// Two accesses race if one of them writes, one is not atomic, and neither happens before the other. An access is dated by the
// number of events that its thread had when it made it, so another thread's access happens later exactly if it knows more events.
class memory {
 public:
  // Forgets all accesses, and undoes all writes.
  void restore();

  // Whether this access races with an earlier one of another thread. A write keeps the contents for restore().
  struct manner {
    bool writes, atomic;
  };
  bool races(void const* address, std::size_t bytes, manner how, int thread, prefix const& known);

 private:
  using granule = std::uint32_t;
  // By thread: the date of its last access in this manner, plus 1.
  struct cell {
    granule before = 0;
    bool touched = false, kept = false;
    prefix read{}, written{}, read_atomically{}, written_atomically{};
  };

  cell& at(std::uintptr_t granule_address);

  template <class Visit>
  static void for_each_granule(void const* address, std::size_t bytes, Visit&& visit);

  std::unordered_map<std::uintptr_t, cell> cells_;
  std::vector<std::pair<std::uintptr_t, cell*>> touched_;  // in this execution
};

}  // namespace tutti::testing::explore
