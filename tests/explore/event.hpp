// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Events: the accesses to atomic locations that an execution consists of, and what a thread knows of the others' events.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::testing::explore {

inline constexpr int max_threads = 8;

// An event by its thread and its number there; or the value that a location had before the first store.
struct reference {
  std::uint16_t thread = 0xffff;
  std::uint16_t index = 0;

  bool is_initial() const { return thread == 0xffff; }
  bool operator==(reference const&) const = default;
};

// The number of events of each thread that lie before some point.
using prefix = std::array<std::uint16_t, max_threads>;

inline void join(prefix& into, prefix const& other) {
  for (std::size_t t = 0; t < into.size(); ++t) into[t] = std::max(into[t], other[t]);
}

// What happens before a point: events, and of each location the last store in modification order.
struct view {
  prefix known{};
  std::vector<reference> floor;  // by location; none beyond the end
};

enum class event_kind : std::uint8_t { load, store, fence };

inline constexpr std::uint16_t no_location = 0xffff;

// A read-modify-write is a load followed by a store, both exclusive.
struct event {
  event_kind kind = event_kind::fence;
  bool exclusive = false;
  std::memory_order order = std::memory_order_relaxed;
  std::uint16_t location = no_location;
  std::uint32_t stamp = 0;  // by which events are ordered as they were added
  reference reads_from{};   // loads
  std::uint64_t value = 0;
  prefix before{};          // program order and reads-from, transitively; the event itself included
  prefix happens_before{};  // the event itself included
  view message{};           // stores: what a load that acquires it learns
};

inline bool acquires(std::memory_order order) {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
inline bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

// What is kept of an event between executions, which compute everything else again.
struct scripted_event {
  std::uint8_t thread;
  event_kind kind;
  bool exclusive;
  std::uint16_t location;
  reference reads_from;
};

// A prefix of an execution: its events as they were added, and the modification order of each location.
struct script {
  struct place {
    std::uint16_t location;
    reference store;
  };
  std::vector<scripted_event> events;
  std::vector<place> modifications;
};

}  // namespace tutti::testing::explore
