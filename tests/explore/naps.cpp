// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that nap until a message arrives.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"
#include "tutti/core/wait.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

// Naps at once, because spinning and yielding are only further polls.
constexpr detail::patience tired{1, std::chrono::microseconds{0}};

void send_to(loopback& self, int to, std::uint64_t value) {
  std::byte* const place = self.claim(to, 0, sizeof value, alignof(std::uint64_t));
  expect(place != nullptr, "there is no room for a message");
  std::memcpy(place, &value, sizeof value);
  self.publish(to, 0, sizeof value, false, 7);
}

void nap_until_message(loopback& self, int from, std::uint64_t expected) {
  auto const poll = [&] {
    return self.peek(from, 0, 7).state == detail::arrival::nothing ? detail::progress::stuck : detail::progress::done;
  };
  detail::wait_until_done(poll, tired, detail::deadline{}, [&](auto const& ready) {
    self.nap(ready);
    return true;
  });
  std::uint64_t value = 0;
  std::memcpy(&value, self.peek(from, 0, 7).data, sizeof value);
  expect(value == expected, "the contents of a message are wrong");
  self.release(from, 0);
}

program exchanges(ranks& group, naps how, std::vector<change> changes = {}) {
  program p = group.running([&](int rank) {
    loopback& self = group[rank];
    if (rank == 0) send_to(self, 1, 1);
    nap_until_message(self, 1 - rank, rank == 0 ? 2 : 1);
    if (rank == 1) send_to(self, 0, 2);
  });
  p.how = how;
  p.changes = std::move(changes);
  return p;
}

}  // namespace

TEST_CASE("naps that end in time") {
  ranks group(2, ranks::with_four_slots);
  program const p = exchanges(group, naps::end_in_time);
  holds("naps of a millisecond, 2 ranks, 2 messages", p);
  finds(p, {{change::drop, "slot.tag", access::store, {}}});
}

TEST_CASE("naps at random") {
  ranks group(4, ranks::with_four_slots);
  holds_at_random("naps of a millisecond, 4 ranks, 6 messages around a ring", group.running([&](int rank) {
    for (std::uint64_t m = 0; m < 6; ++m) {
      send_to(group[rank], (rank + 1) % 4, m);
      nap_until_message(group[rank], (rank + 3) % 4, m);
    }
  }),
                  300);
}

// mailbox::ring() does not pay for a fence, so a nap may have to end in time. One fence of the two would not be enough.
TEST_CASE("a wake-up can be missed") {
  ranks group(2, ranks::with_four_slots);
  change const ringing{change::fence, "asleep", access::load, {}}, napping{change::fence, "asleep", access::store, {}};
  for (auto const& fences : {std::vector<change>{}, {ringing}, {napping}}) {
    result const r = exhaustively(exchanges(group, naps::end_by_wake_up, fences));
    print("naps without end, with " + std::to_string(fences.size()) + " fences of 2", r);
    CHECK(r.violation.starts_with("deadlock"));
  }
}

TEST_CASE("with fences no wake-up is missed") {
  ranks group(2, ranks::with_four_slots);
  program const p =
      exchanges(group, naps::end_by_wake_up,
                {{change::fence, "asleep", access::load, {}}, {change::fence, "asleep", access::store, {}}});
  result const r = holds("naps without end, with fences, 2 ranks, 2 messages", p);
  char const* const fenced = "the fence after it does as much";
  finds(p, weakenings_of(r, {"asleep", "bell", "slot.tag"}),
        {{"asleep", access::store, change::relax, fenced},
         {"asleep", access::store, change::weaken, fenced},
         {"bell", access::load, change::weaken, "the fence before it does as much"}});
  finds(p, {{change::drop, "bell", access::wake, {}},
            {change::drop, "bell", access::update, {}},
            {change::drop, "asleep", access::store, {}}});
}
