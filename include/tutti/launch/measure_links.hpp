// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the latency and bandwidth at each distance: one pair of ranks after the other plays ping-pong while the
// others wait.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/topology.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/launch/announce.hpp"
#include "tutti/tune/links.hpp"

namespace tutti::detail {

// Whether TUTTI_TOPOLOGY is `measure`.
[[gnu::cold]] bool wants_link_times();

// One of two ranks that play ping-pong; `first` serves.
template <class Transport>
class ping_pong {
 public:
  ping_pong(engine<Transport>& on, int peer, bool first) : engine_(on), peer_(peer), first_(first), long_(long_bytes) {}

  // Both ranks do the same work; the result of the first counts. The latency is the median, because ranks that share
  // cores wait for each other; the cost of bytes is the fastest.
  [[gnu::cold]] link_time measure() {
    std::array<std::int64_t, rounds> times{};
    for (std::int64_t& time : times) time = exchange(short_bytes);
    std::int64_t with_bytes = exchange(long_bytes);
    for (int i = 1; i < long_rounds; ++i) with_bytes = std::min(with_bytes, exchange(long_bytes));
    for (std::size_t i = 1; i < times.size(); ++i)
      for (std::size_t k = i; k > 0 && times[k - 1] > times[k]; --k) std::swap(times[k - 1], times[k]);
    std::int64_t const one_way = std::max<std::int64_t>(times[rounds / 2] / 2, 1);
    std::int64_t const bytes_alone = std::max(with_bytes - times[0], least_for_long);
    return {.latency = static_cast<std::uint64_t>(one_way) * 1000,
            .byte = static_cast<std::uint64_t>(bytes_alone) * 1'000'000 / long_bytes};
  }

 private:
  static constexpr std::size_t short_bytes = 8, long_bytes = std::size_t{1} << 20;
  static constexpr int rounds = 101, long_rounds = 5;
  static constexpr std::int64_t least_for_long = 1000;  // nanoseconds: 1 TB/s
  static constexpr std::uint32_t tag = 0x70696e67;

  // Sends this many bytes and waits for a short reply; returns nanoseconds.
  std::int64_t exchange(std::size_t bytes) {
    auto const began = deadline::clock::now();
    if (first_) send(bytes);
    receive();
    if (!first_) send(short_bytes);
    return std::chrono::nanoseconds(deadline::clock::now() - began).count();
  }
  void send(std::size_t bytes) {
    std::size_t sent = 0;
    wait([&] { return send_slices(engine_.transport(), peer_, std::span(long_).first(bytes), sent, tag); });
  }
  void receive() {
    std::size_t received = 0;
    auto const store = [&](std::byte const* data, std::size_t bytes) {
      std::memcpy(long_.data() + received, data, bytes);
      received += bytes;
    };
    wait([&] { return receive_slices(engine_.transport(), peer_, tag, store); });
  }
  void wait(function_ref<progress()> poll) {
    wait_beside_calls(engine_, peer_, "message", poll, [this](int peer) { return peer == peer_; });
  }

  engine<Transport>& engine_;
  int peer_;
  bool first_;
  std::vector<std::byte> long_;
};

// The first two ranks at this distance.
[[gnu::cold]] std::optional<std::pair<int, int>> pair_at(distance d, std::vector<location> const& places);

// Called by all ranks before their first call; all get the same result.
template <class Transport>
[[gnu::cold]] link_times measure_links(engine<Transport>& on) {
  link_times out;
  std::vector<location> const places = on.transport().locations();
  for (distance const d : every_distance) {
    if (!has_levels<Transport> && !through_memory(d)) continue;
    auto const pair = pair_at(d, places);
    if (!pair) continue;
    auto const [a, b] = *pair;
    std::string text;
    if (on.rank() == a || on.rank() == b) {
      bool const first = on.rank() == a;
      int const peer = first ? b : a;
      link_time mine;
      if constexpr (has_levels<Transport>) {
        auto const& nodes = on.transport().nodes();
        if (through_memory(d)) mine = ping_pong(on.levels->inside().engine(), nodes.local_rank(peer), first).measure();
        else mine = ping_pong(on, peer, first).measure();
      } else {
        mine = ping_pong(on, peer, first).measure();
      }
      if (first) text.assign(reinterpret_cast<char const*>(&mine), sizeof mine);
    }
    text = announce(on, a, std::move(text), "measured times of messages");
    std::memcpy(&out[d], text.data(), sizeof out[d]);
  }
  return out;
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/measure_links_impl.hpp"
#endif
