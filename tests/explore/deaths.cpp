// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank dies before any of its accesses to shared memory: what it has published counts, and the others end with one fault.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

// A group of which one rank dies.
class mortal_ranks {
 public:
  mortal_ranks(int running, int all, int victim) : group_(running, all), victim_(victim) {}

  loopback& operator[](int rank) { return group_[rank]; }
  int victim() const { return victim_; }
  bool lost() const { return testing::explore::lost(word_[0]); }

  program running(std::function<void(int)> body, std::function<void()> reset = {}) {
    program out = group_.running(std::move(body), std::move(reset), {std::as_writable_bytes(std::span(word_))});
    out.dies = {victim_, word_.data()};
    return out;
  }

 private:
  using word = std::atomic<std::uint32_t>;

  ranks group_;
  int victim_;
  std::array<word, 1> word_{};
};

constexpr int messages = 5;

std::uint64_t contents_of(int message) { return 100 + static_cast<std::uint64_t>(message); }

// Sends until all messages are on their way or the receiver is lost. Returns how many are known to be.
void send_to_mortal(mortal_ranks& group, int& sent) {
  for (sent = 0; sent < messages; ++sent) {
    std::byte* place = nullptr;
    wait_for([&] {
      place = group[0].claim(1, 0, sizeof(std::uint64_t), alignof(std::uint64_t));
      return place != nullptr || (group.victim() == 1 && group.lost());
    });
    if (place == nullptr) return;
    std::uint64_t const value = contents_of(sent);
    std::memcpy(place, &value, sizeof value);
    group[0].publish(1, 0, sizeof value, false, 7);
  }
}

// Receives until all messages have arrived or the sender is lost. What it sent before that has arrived.
void receive_from_mortal(mortal_ranks& group, int& received, bool looks_again) {
  for (received = 0; received < messages; ++received) {
    detail::arrival arrived;
    wait_for([&] {
      arrived = group[1].peek(0, 0, 7);
      return bool(arrived) || (group.victim() == 0 && group.lost());
    });
    if (!arrived && looks_again) arrived = group[1].peek(0, 0, 7);
    if (!arrived) return;
    std::uint64_t value = 0;
    std::memcpy(&value, arrived.data, sizeof value);
    expect(arrived.bytes == sizeof value && value == contents_of(received), "a message is torn");
    group[1].release(0, 0);
  }
}

program channel_with(mortal_ranks& group, int& sent, int& received, bool looks_again) {
  program out = group.running(
      [&group, &sent, &received, looks_again](int rank) {
        if (rank == 0) send_to_mortal(group, sent);
        else receive_from_mortal(group, received, looks_again);
      },
      [&] { sent = received = 0; });
  out.at_end = [&group, &sent, &received] {
    if (group.victim() == 0) expect(received == sent || received == sent + 1, "a message of a rank that died is lost");
    else expect(sent == messages || sent >= received, "a rank that died has received too much");
  };
  return out;
}

}  // namespace

TEST_CASE("what a rank sent before its death arrives, and nobody waits for more") {
  int sent = 0, received = 0;
  mortal_ranks sender(2, ranks::with_four_slots, 0), receiver(2, ranks::with_four_slots, 1);
  program const p = channel_with(sender, sent, received, true);
  result const r = holds("mailbox, a sender of 5 messages dies, 2 ranks", p);
  finds(p, weakenings_of(r, {"slot.tag", "consumed"}));
  finds(p,
        {{change::drop, "slot.tag", access::store, {}}, {change::delay, "slot.line", access::plain_store, "slot.tag"}});
  result const hasty = exhaustively(channel_with(sender, sent, received, false));
  CHECK(hasty.violation == "a message of a rank that died is lost");
  holds("mailbox, a receiver of 5 messages dies, 2 ranks", channel_with(receiver, sent, received, true));
}

TEST_CASE("the call that a rank died in is on record, and whole") {
  mortal_ranks group(2, 2, 0);
  auto const words_of = [](std::uint64_t call) {
    detail::call_words out;
    out.fill(call);
    return out;
  };
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      for (std::uint64_t call = 1; call <= 2; ++call) {
        board.begin(call, words_of(call), call);
        if (call == 1) board.finish(call);
      }
      return;
    }
    wait_for([&] { return group.lost() || board.called(0) == 2; });
    std::uint64_t const finished = board.finished(0), called = board.called(0);
    expect(finished <= called && called <= 2, "a call has finished that has not begun");
    expect(called == 0 || board.find(0, called) == words_of(called), "the last call is not on record");
  });
  result const r = holds("board, a rank dies in two calls, 2 ranks", p);
  finds(p, weakenings_of(r, {"called"}));
  finds(p, {{change::delay, "call.sequence", access::store, "called"}});
}

TEST_CASE("a rank dies while it replaces its reason to leave: its peers read one of them whole, or none") {
  using detail::circumstance;
  mortal_ranks group(2, 2, 0);
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      board.explain_leaving(circumstance::refused, "the longer one");
      board.explain_leaving(circumstance::exception, "shorter");
      group[0].leave();
      return;
    }
    wait_for([&] { return group.lost() || group[1].left(0); });
    detail::leaving_reason const said = board.reason_to_leave(0);
    expect(said.text == (said.when == circumstance::usual     ? ""
                         : said.when == circumstance::refused ? "the longer one"
                                                              : "shorter"),
           "a reason to leave is torn");
  });
  holds("board, a rank dies while it replaces its reason to leave, 2 ranks", p);
  finds(p, {{change::drop, "reason.stores", access::store, {}}});
}

// As faults::examine does: whoever finds the loss reports it, unless there is a fault already.
TEST_CASE("a rank dies while it reports a fault: all others report the same one") {
  for (bool const others_find_one : {false, true}) {
    std::array<int, 3> seen{};
    mortal_ranks group(3, 3, 0);
    program p = group.running([&](int rank) {
      detail::board board = group[rank].notices();
      if (rank == 0 || (others_find_one && rank == 1))
        board.raise({static_cast<error_code>(10 + rank), rank, -1, "found"});
      if (rank == 0) return;
      wait_for([&] { return board.faulty() || group.lost(); });
      if (!board.faulty()) board.raise({static_cast<error_code>(20 + rank), rank, 0, "lost"});
      std::optional<detail::fault> const found = board.find_fault();
      expect(found.has_value(), "a fault is not found");
      int const code = static_cast<int>(found->code);
      expect(code % 10 == found->rank && found->text == (code < 20 ? "found" : "lost"), "a fault is torn");
      seen[static_cast<std::size_t>(rank)] = code;
    });
    p.at_end = [&] { expect(seen[1] == seen[2], "survivors see different faults"); };
    result const r = holds(
        std::string("faults, a rank dies while ") + (others_find_one ? "two report, " : "it reports, ") + "3 ranks", p);
    if (others_find_one) continue;
    char const* const withdrawal = "the total order is for ranks that read arrays, see board.cpp";
    finds(p, weakenings_of(r, {"first_fault"}),
          {{"first_fault", access::load, change::weaken, withdrawal},
           {"first_fault", access::update, change::weaken, withdrawal}});
    finds(p, {{change::delay, "fault.contents", access::plain_store, "first_fault"}});
  }
}

namespace {

using detail::resolution;

// As detail::agreeing does: a rank that is lost need not vote, and a vote that it has cast counts.
resolution agree_without_lost(mortal_ranks& group, int rank, int count) {
  detail::ballot votes = group[rank].votes();
  auto const flags_of = [](int r) { return 0xf0u | 1u << r; };
  votes.cast(1, {detail::motion::agree, flags_of(rank)});
  resolution all{resolution::agreed, ~0u, {}, {}, {}};
  for (int r = 0; r < count; ++r) {
    std::optional<detail::ballot::vote> vote;
    bool gone = false;
    wait_for([&] {
      vote = votes.of(r, 1);
      return vote || votes.last_decided(1) >= 1 || (gone = r == group.victim() && group.lost());
    });
    if (gone) {
      all.gone.push_back(r);
      vote = votes.of(r, 1);
    } else if (!vote) {
      break;  // it is decided
    }
    if (vote) all.flags &= vote->flags;
  }
  votes.propose(1, all);
  std::optional<resolution> const out = votes.decision(1);
  expect(out.has_value(), "an agreement is not decided");
  bool const knows_all = out->gone.empty() || (out->gone == std::vector{group.victim()} && group.lost());
  expect(knows_all && out->flags == 0xf0u, "an agreement is wrong");
  return *out;
}

}  // namespace

TEST_CASE("a rank dies in an agreement: all others see the same decision") {
  constexpr int count = 3;
  std::array<resolution, count> seen;
  mortal_ranks group(count, count, 0);
  program p =
      group.running([&](int rank) { seen[static_cast<std::size_t>(rank)] = agree_without_lost(group, rank, count); });
  p.at_end = [&] {
    resolution const &a = seen[1], &b = seen[2];
    expect(a.outcome == b.outcome && a.flags == b.flags && a.gone == b.gone && a.named == b.named,
           "survivors see different decisions");
  };
  result const r = holds("ballot, a rank dies in an agreement, 3 ranks", p);
  finds(p, weakenings_of(r, {"decided"}));
}
