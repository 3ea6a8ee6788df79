// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that join a group in shared memory, as in init, split and shrink; one of them dies or gives up.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/fields.hpp"
#include "explore/weakenings.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/shared_memory/joining.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

// A rank that naps at once, because spinning and yielding are only further polls.
class newcomer : public loopback {
 public:
  newcomer(std::shared_ptr<hub> const& shared, int rank) : loopback(shared, rank) {
    attach(memory(), shared->tracks(), {.end = std::numeric_limits<std::uintptr_t>::max()},
           {1, std::chrono::microseconds{0}});
    memory().rank(rank).status.store(detail::presence::absent);
  }
};

constexpr char const* empty = "a rank writes nothing between its two steps that others read";

// What joining told a rank.
struct outcome {
  bool joined = false;
  error_code code{};
  int peer = -1;
  std::string text{};

  bool operator==(outcome const&) const = default;
};

// All ranks join, except that one may die, or give up because the system refuses it the memory.
class newcomers {
 public:
  explicit newcomers(int count, int dies = -1, int refused = -1)
      : hub_(std::make_shared<loopback::hub>(count, 1)), refused_(refused) {
    for (int r = 0; r < count; ++r) fresh_.emplace_back(hub_, r);
    p = {.threads = count,
         .shared = {{hub_->memory().base(), hub_->memory().bytes()}, std::as_writable_bytes(std::span(word_))},
         .set_up =
             [this] {
               now_ = fresh_;
               seen.assign(now_.size(), {});
             },
         .body = [this](int rank) { join(now_[static_cast<std::size_t>(rank)]); },
         .name = [this](void const* a) { return name_in(hub_->memory(), hub_->ranks(), hub_->tracks(), a); }};
    if (dies >= 0) p.dies = {dies, word_.data()};
    p.at_end = [this, count, dies] {
      outcome const& first = seen[dies == 0 || refused_ == 0 ? 1 : 0];
      for (int r = 0; r < count; ++r)
        if (r != dies && r != refused_)
          expect(seen[static_cast<std::size_t>(r)] == first, "ranks are told different outcomes");
      int const guilty = dies >= 0 ? dies : refused_;
      expect(first.joined || (first.code == error_code::rank_lost && first.peer == guilty),
             "the guilty rank is not named");
    };
  }

  program p;
  std::vector<outcome> seen;

 private:
  static std::uint64_t probe_of(int rank) { return 100 + static_cast<std::uint64_t>(rank); }

  void join(newcomer& self) {
    int const rank = self.rank();
    detail::segment const& memory = self.memory();
    std::atomic_ref(memory.rank(rank).process).store(1 + static_cast<std::uint32_t>(rank), std::memory_order_release);
    detail::acquaintance const others;
    if (rank == refused_) return detail::joining::refuse(memory, rank, others);
    memory.rank(rank).probe = probe_of(rank);
    detail::countdown until(std::chrono::hours(1));
    auto const is_lost = [&](int r) { return p.dies.thread == r && lost(word_[0]); };
    outcome& own = seen[static_cast<std::size_t>(rank)];
    try {
      detail::joining(self, is_lost, others, until).join([&] { return finds_all(memory); });
      own.joined = true;
    } catch (error const& e) {
      // No other rank may run here, because exceptions in flight belong to the thread of the system.
      own = {false, e.code(), e.peer(), e.happened()};
    }
    if (own.joined)
      for (int r = 0; r < self.ranks(); ++r)
        expect(memory.rank(r).can_fetch.load(std::memory_order_relaxed) == detail::fetching::works,
               "a rank has joined without another");
  }
  bool finds_all(detail::segment const& memory) const {
    for (int r = 0; r < hub_->ranks(); ++r)
      if (r != refused_) expect(memory.rank(r).probe == probe_of(r), "a rank is found before it has written its page");
    return true;
  }

  std::shared_ptr<loopback::hub> hub_;
  std::vector<newcomer> fresh_, now_;
  std::array<std::atomic<std::uint32_t>, 1> word_{};
  int refused_;
};

}  // namespace

TEST_CASE("ranks join a group") {
  newcomers two(2);
  result const r = holds("joining, 2 ranks", two.p);
  finds(two.p, weakenings_of(r, {"status", "can_fetch"}),
        {{"can_fetch", access::load, change::relax, empty}, {"can_fetch", access::store, change::relax, empty}});
  finds(two.p, {{change::drop, "status", access::store, {}},
                {change::drop, "can_fetch", access::store, {}},
                {change::delay, "probe", access::plain_store, "status"}});
}

TEST_CASE("a rank dies while it joins: all others join, or are told which rank") {
  newcomers two(2, 0);
  result const r = holds("joining, one dies, 2 ranks", two.p);
  finds(two.p, weakenings_of(r, {"status", "can_fetch"}),
        {{"can_fetch", access::load, change::relax, empty}, {"can_fetch", access::store, change::relax, empty}});
}

TEST_CASE("a rank gives up before it joins: all others are told which rank") {
  newcomers two(2, -1, 0), three(3, -1, 0);
  holds("joining, one gives up, 2 ranks", two.p);
  holds_at_random("joining, one gives up, 3 ranks", three.p, 300);
}
