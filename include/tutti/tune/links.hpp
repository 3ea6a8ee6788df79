// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time that a message takes between two ranks, depending on their distance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tutti/core/enum_text.hpp"

namespace tutti::detail {

// Through memory: between ranks that share a last-level cache, or others of the same node. By MPI messages: between
// ranks of a node, or across nodes.
enum class distance : std::uint8_t { cache, node, messages, across };

inline constexpr std::array every_distance{distance::cache, distance::node, distance::messages, distance::across};

inline constexpr char const* distance_names[]{"cache", "node", "messages", "across"};

constexpr std::string_view name(distance d) { return text_of<distance::across>(d, distance_names, "?"); }

constexpr bool through_memory(distance d) { return d == distance::cache || d == distance::node; }

// Integers, so that all ranks compute the same.
struct link_time {
  std::uint64_t latency = 0;  // picoseconds, one way
  std::uint64_t byte = 0;     // femtoseconds

  friend constexpr bool operator==(link_time const&, link_time const&) = default;

  constexpr bool known() const { return latency > 0; }
  constexpr double microseconds() const { return static_cast<double>(latency) * 1e-6; }
  constexpr double gigabytes_per_second() const { return byte > 0 ? 1e6 / static_cast<double>(byte) : 0; }
};

// A link without measurement is unknown.
struct link_times {
  std::array<link_time, every_distance.size()> all{};

  friend constexpr bool operator==(link_times const&, link_times const&) = default;

  constexpr link_time const& operator[](distance d) const { return all[static_cast<std::size_t>(d)]; }
  constexpr link_time& operator[](distance d) { return all[static_cast<std::size_t>(d)]; }
};

// Defaults without measurement: Open MPI between two ranks of a machine, and TCP over 10 Gbit/s Ethernet.
inline constexpr link_times assumed_links = [] {
  link_times out;
  out[distance::messages] = {.latency = 500'000, .byte = 200'000};
  out[distance::across] = {.latency = 20'000'000, .byte = 850'000};
  return out;
}();

}  // namespace tutti::detail
