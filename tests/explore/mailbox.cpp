// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages through channels of four slots.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"
#include "support/mesh.hpp"

using namespace tutti;
using namespace tutti::testing::explore;
using testing::mesh_as;

namespace {

// Every other message fits into the line of the head.
using words = std::array<std::uint64_t, 7>;
constexpr std::size_t bytes_of(int message) { return message % 2 == 0 ? sizeof(words) : sizeof(std::uint64_t); }

words contents(int from, int message) {
  words out;
  out.fill(static_cast<std::uint64_t>(100 * from + message));
  return out;
}

void send(loopback& self, int to, int message) {
  std::byte* place = nullptr;
  wait_for([&] { return (place = self.claim(to, 0, bytes_of(message), alignof(std::uint64_t))) != nullptr; });
  words const out = contents(self.rank(), message);
  std::memcpy(place, out.data(), bytes_of(message));
  self.publish(to, 0, bytes_of(message), false, 7);
}

void receive(loopback& self, int from, int message) {
  detail::arrival arrived;
  wait_for([&] { return (arrived = self.peek(from, 0, 7)).state != detail::arrival::nothing; });
  expect(bool(arrived) && arrived.bytes == bytes_of(message) && !arrived.more, "the head of a message is wrong");
  words const expected = contents(from, message);
  words in{};
  std::memcpy(in.data(), arrived.data, arrived.bytes);
  expect(std::memcmp(in.data(), expected.data(), arrived.bytes) == 0, "the contents of a message are wrong");
  self.release(from, 0);
}

}  // namespace

TEST_CASE("one way: slots are used again") {
  int const messages = is_long_form() ? 12 : 6;
  ranks group(2, ranks::with_four_slots);
  program const p = group.running([&](int rank) {
    for (int m = 0; m < messages; ++m) rank == 0 ? send(group[0], 1, m) : receive(group[1], 0, m);
  });
  result const r = holds("mailbox, 2 ranks, " + std::to_string(messages) + " messages one way", p);
  finds(p, weakenings_of(r));
  finds(p, {{change::drop, "slot.tag", access::store, {}},
            {change::drop, "consumed", access::store, {}},
            {change::delay, "slot.bytes", access::plain_store, "slot.tag"},
            {change::delay, "slot.kind", access::plain_store, "slot.tag"},
            {change::delay, "slot.line", access::plain_store, "slot.tag"},
            {change::delay, "slot.data", access::plain_store, "slot.tag"}});
}

TEST_CASE("one way: close places are used again, or a slot if the receiver lags") {
  using block = std::array<std::uint64_t, detail::min_close_bytes / sizeof(std::uint64_t)>;
  mesh_as const elsewhere(false);
  constexpr int messages = 6, ranks_with_eight_slots = 17;
  static_assert(detail::slots_of(ranks_with_eight_slots, 0) == 8);
  ranks group(2, ranks_with_eight_slots);
  program const p = group.running([&](int rank) {
    loopback& self = group[rank];
    for (int m = 0; m < messages; ++m) {
      block whole;
      whole.fill(static_cast<std::uint64_t>(m));
      if (rank == 0) {
        std::byte* const place = self.claim(1, 0, sizeof whole, alignof(std::uint64_t));
        expect(place != nullptr, "there are more slots than messages");
        std::memcpy(place, whole.data(), sizeof whole);
        self.publish(1, 0, sizeof whole, false, 7);
      } else {
        detail::arrival arrived;
        wait_for([&] { return (arrived = self.peek(0, 0, 7)).state != detail::arrival::nothing; });
        block in{};
        std::memcpy(in.data(), arrived.data, sizeof in);
        expect(in == whole, "the contents of a message are wrong");
        self.release(0, 0);
      }
    }
  });
  result const r = holds("mailbox, 2 ranks, 6 messages one way in close places or slots", p);
  finds(p, weakenings_of(r));
  finds(p, {{change::delay, "close", access::plain_store, "slot.tag"},
            {change::delay, "slot.line", access::plain_store, "slot.tag"}});
}

TEST_CASE("both ways") {
  ranks group(2, ranks::with_four_slots);
  holds("mailbox, 2 ranks, 5 messages each way", group.running([&](int rank) {
    for (int m = 0; m < 5; ++m) {
      send(group[rank], 1 - rank, m);
      receive(group[rank], 1 - rank, m);
    }
  }));
}

TEST_CASE("around a ring of three") {
  int const messages = is_long_form() ? 10 : 5;
  ranks group(3, ranks::with_four_slots);
  holds("mailbox, 3 ranks, " + std::to_string(messages) + " messages around a ring", group.running([&](int rank) {
    for (int m = 0; m < messages; ++m) {
      send(group[rank], (rank + 1) % 3, m);
      receive(group[rank], (rank + 2) % 3, m);
    }
  }));
}

TEST_CASE("references: the sender changes its memory once it has been read") {
  std::array<words, 1> memory{};
  ranks group(2, ranks::with_four_slots);
  program const p = group.running(
      [&](int rank) {
        loopback& self = group[rank];
        for (int m = 0; m < 2; ++m) {
          if (rank == 1) {
            receive(self, 0, 2 * m);
            continue;
          }
          wait_for([&] { return self.consumed(1, 0, self.published(1, 0)); });
          words const out = contents(0, 2 * m);
          std::memcpy(memory.data(), out.data(), sizeof out);
          self.publish_reference(1, 0, memory.data(), false, sizeof out, false, 7);
        }
      },
      {}, {std::as_writable_bytes(std::span(memory))});
  result const r = holds("mailbox, 2 ranks, 2 references to the same memory", p);
  finds(p, weakenings_of(r));
}

TEST_CASE("all to all, at random") {
  ranks group(4, ranks::with_four_slots);
  holds_at_random("mailbox, 4 ranks, 8 messages to each", group.running([&](int rank) {
    for (int m = 0; m < 8; ++m)
      for (int step = 1; step < 4; ++step) {
        send(group[rank], (rank + step) % 4, m);
        receive(group[rank], (rank + 4 - step) % 4, m);
      }
  }),
                  300);
}
