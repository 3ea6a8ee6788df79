// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lock of the interposer's directory of groups, one of whose holders may be killed.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "../../tools/interpose/lock_of_ranks.hpp"
#include "explore/explore.hpp"
#include "explore/weakenings.hpp"
#include "tutti/core/error.hpp"

using namespace tutti::testing::explore;

namespace {

struct directory {
  std::atomic<std::uint32_t> holder, ended;
  std::uint32_t first, second;  // equal, except during a change
};

// Each rank changes the directory `changes` times, unless another has died as it did.
class changed_by_ranks {
 public:
  changed_by_ranks(int ranks, std::uint32_t changes, int dies = -1) {
    p = {.threads = ranks,
         .shared = {std::as_writable_bytes(std::span(memory_))},
         .body =
             [this, changes, dies](int rank) {
               directory& all = memory_[0];
               auto const is_lost = [&](int other) { return other == dies && lost(all.ended); };
               for (std::uint32_t i = 0; i < changes; ++i) try {
                   interpose::lock_of_ranks const alone(all.holder, rank, is_lost);
                   expect(all.first == all.second, "a rank has entered during a change");
                   ++all.first;
                   ++all.second;
                 } catch (tutti::error const& e) {
                   expect(e.code() == tutti::error_code::rank_lost && e.peer() == dies, "a wrong rank is named");
                   expect(all.holder.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(dies) + 1,
                          "a rank is named that no longer holds the lock");
                 }
             },
         .name = [this](void const* a) { return name(a); }};
    if (dies >= 0) p.dies = {dies, &memory_[0].ended};
    else
      p.at_end = [this, ranks, changes] {
        expect(memory_[0].first == static_cast<std::uint32_t>(ranks) * changes, "a change is lost");
      };
  }

  program p;

 private:
  place_name name(void const* address) const {
    directory const& all = memory_[0];
    std::string out = "second";
    if (address == &all.holder) out = "holder";
    if (address == &all.ended) out = "ended";
    if (address == &all.first) out = "first";
    return {out, out};
  }

  std::array<directory, 1> memory_{};
};

}  // namespace

TEST_CASE("one rank at a time holds the lock") {
  changed_by_ranks two(2, 2), three(3, 1);
  result const r = holds("lock of ranks, 2 ranks, 2 changes", two.p);
  finds(two.p, weakenings_of(r));
  finds(two.p, {{change::drop, "holder", access::store, {}}, {change::delay, "second", access::plain_store, "holder"}});
  holds("lock of ranks, 3 ranks, 1 change", three.p);
}

TEST_CASE("a rank dies before any of its accesses: others are told only if it holds the lock") {
  changed_by_ranks two(2, 1, 0), three(3, 1, 1);
  holds("lock of ranks, one dies, 2 ranks", two.p);
  holds("lock of ranks, one dies, 3 ranks", three.p);
}
