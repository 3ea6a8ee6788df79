// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages: matching, and each way in which a message too large to be eager reaches its receiver.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"
#include "tutti/message/messenger.hpp"

using namespace tutti;
using namespace tutti::testing::explore;
using detail::transfer;

namespace {

// How a receiver reads memory of its peer.
enum class reading { never, in_place, by_the_kernel };

// loopback, with the access to memory of peers that shm has.
template <reading How>
class reading_loopback : public loopback {
 public:
  static constexpr bool memory_outlives_owner = How != reading::never;

  explicit reading_loopback(loopback const& usual) : loopback(usual) {}

  bool is_shared(void const*, std::size_t) const noexcept { return How == reading::in_place; }
  bool pulls() const noexcept { return How == reading::by_the_kernel; }
  // The kernel reads while the owner may write. Only the first word of a message is looked at.
  int fetch(int, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    auto& word = *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
    std::uint64_t const value = std::atomic_ref(word).load(std::memory_order_relaxed);
    if (bytes >= sizeof value) std::memcpy(to, &value, sizeof value);
    return 0;
  }
};

constexpr std::size_t large = detail::slot_bytes / sizeof(std::uint64_t) - 1;  // words; two slices

// A messenger for each of two ranks, the transfers of each, and an array that rank 0 sends from.
template <reading How>
class messengers {
 public:
  messengers() : group_(2, ranks::with_four_slots, detail::all_tracks) {}

  std::uint64_t& word(int rank) { return arrays_[static_cast<std::size_t>(rank)][0]; }
  // Rank 0 writes while the kernel may read for rank 1.
  void write(std::uint64_t value) { std::atomic_ref(word(0)).store(value, std::memory_order_relaxed); }

  transfer& send(int tag, std::size_t words) {
    return start(0, {.what = transfer::send,
                     .tag = tag,
                     .peer = 1,
                     .from = std::as_bytes(std::span(arrays_[0])).data(),
                     .bytes = words * sizeof(std::uint64_t)});
  }
  transfer& receive(int tag, std::size_t words) {
    return start(1, {.what = transfer::receive,
                     .tag = tag,
                     .peer = 0,
                     .to = std::as_writable_bytes(std::span(arrays_[1])).data(),
                     .bytes = words * sizeof(std::uint64_t)});
  }
  // Polls so often without a pause first, as a rank that waits long.
  void end(int rank, transfer const& t, int polls = 0) {
    auto& all = of(rank);
    for (int i = 0; i < polls && !t.ended; ++i) all.poll(true);
    wait_for([&] {
      if (!t.ended) all.poll(true);
      expect(!all.failure(), "a message failed");
      return t.ended;
    });
    if (all.must_stop_waiting()) all.stop_waiting();
  }

  program running(std::function<void(int)> body) {
    return group_.running(std::move(body),
                          [this] {
                            messengers_.clear();
                            transports_.clear();
                            for (int r = 0; r < 2; ++r) messengers_.emplace_back(transports_.emplace_back(group_[r]));
                            for (auto& all : transfers_) all.clear();
                          },
                          {std::as_writable_bytes(std::span(arrays_))});
  }

 private:
  using transport = reading_loopback<How>;

  detail::messenger<transport>& of(int rank) { return messengers_[static_cast<std::size_t>(rank)]; }
  transfer& start(int rank, transfer const& t) {
    transfer& out = transfers_[static_cast<std::size_t>(rank)].emplace_back(t);
    of(rank).start(out);
    return out;
  }

  ranks group_;
  std::deque<transport> transports_;
  std::deque<detail::messenger<transport>> messengers_;
  std::array<std::deque<transfer>, 2> transfers_;
  std::array<std::array<std::uint64_t, large>, 2> arrays_{};
};

// Rank 0 sends messages from one array, which it changes as soon as each has ended.
template <reading How>
program from_one_array(messengers<How>& group, int messages, int polls = 0) {
  return group.running([&group, messages, polls](int rank) {
    for (std::uint64_t m = 1; m <= static_cast<std::uint64_t>(messages); ++m) {
      if (rank == 0) {
        group.write(m);
        group.end(0, group.send(7, large), polls);
      } else {
        transfer const& t = group.receive(7, large);
        group.end(1, t, polls);
        expect(t.source == 0 && t.got == large * sizeof(std::uint64_t), "the head of a message is wrong");
        expect(group.word(1) == m, "the contents of a message are wrong");
      }
    }
    if (rank == 0) group.write(0);
  });
}

}  // namespace

TEST_CASE("eager messages are matched by their tags, in whatever order they are received") {
  messengers<reading::never> group;
  program const p = group.running([&](int rank) {
    if (rank == 0) {
      for (int const tag : {1, 2}) {
        group.word(0) = static_cast<std::uint64_t>(tag);
        group.end(0, group.send(tag, 1));
      }
      return;
    }
    for (int const tag : {2, 1}) {
      group.end(1, group.receive(tag, 1));
      expect(group.word(1) == static_cast<std::uint64_t>(tag), "the contents of a message are wrong");
    }
  });
  result const r = holds("messages, 2 eager ones received in reverse order, 2 ranks", p);
  finds(p, weakenings_of(r, {"slot.tag"}));
  finds(p,
        {{change::drop, "slot.tag", access::store, {}}, {change::delay, "slot.line", access::plain_store, "slot.tag"}});
}

TEST_CASE("slices") {
  messengers<reading::never> group;
  program const p = from_one_array(group, 1);
  result const r = holds("messages, 1 in slices, 2 ranks", p);
  finds(p, weakenings_of(r, {"slot.tag"}));
  finds(p, {{change::delay, "slot.data", access::plain_store, "slot.tag"}});
}

TEST_CASE("memory that is read in place: the sender changes it once it has been read") {
  messengers<reading::in_place> group;
  program const p = from_one_array(group, 2);
  result const r = holds("messages, 2 read in place, 2 ranks", p);
  finds(p, weakenings_of(r, {"slot.tag"}));
}

TEST_CASE("memory that is fetched, or sent in slices if the sender waits") {
  messengers<reading::by_the_kernel> group;
  program const p = from_one_array(group, 1);
  result const r = holds("messages, 1 fetched or in slices, 2 ranks", p);
  finds(p, weakenings_of(r, {"slot.tag"}));
}

// A receiver that has waited long for slices fetches, while the sender may send them and go on.
TEST_CASE("memory that is fetched because slices are late, at random") {
  messengers<reading::by_the_kernel> group;
  holds_at_random("messages, 2 fetched late, 2 ranks", from_one_array(group, 2, 60), 100);
}

// Without its fences, the receiver would take what the sender has changed meanwhile for the message.
TEST_CASE("the fences of a late fetch are needed") {
  if (!is_long_form()) return;
  messengers<reading::by_the_kernel> group;
  result const r = at_random(from_one_array(group, 2, 60), 1, 20'000, {change::drop, {}, access::fence, {}});
  print("messages, 2 fetched late, without fences, at random", r);
  CHECK(r.violation.starts_with("the contents of a message are wrong"));
}
