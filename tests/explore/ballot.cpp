// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agreements, with a single decision whoever is late.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"

using namespace tutti;
using namespace tutti::testing::explore;
using detail::resolution;

namespace {

constexpr std::uint32_t flags_of(int rank, std::uint64_t number) {
  return 0xf0u | 1u << rank | static_cast<std::uint32_t>(number) << 8;
}

resolution with(resolution::outcomes outcome, std::uint32_t flags, std::vector<int> gone, std::vector<int> named) {
  resolution out;
  out.outcome = outcome;
  out.flags = flags;
  out.gone = std::move(gone);
  out.named = std::move(named);
  return out;
}

bool is_same(resolution const& a, resolution const& b) {
  return a.outcome == b.outcome && a.flags == b.flags && a.gone == b.gone && a.left == b.left && a.named == b.named;
}

// A proposal is overwritten two agreements later, after a vote of every reader.
constexpr char const* acquired =
    "a reader acquires what overwrites a proposal, so that cannot depend on its later vote";

// Votes, and waits for all others unless its time is up at once.
resolution agree(loopback& self, int count, std::uint64_t number, bool in_haste) {
  detail::ballot votes = self.votes();
  votes.cast(number, {detail::motion::agree, flags_of(self.rank(), number)});
  resolution all = with(resolution::agreed, flags_of(self.rank(), number), {}, {});
  for (int r = 0; r < count; ++r) {
    if (in_haste) break;
    std::optional<detail::ballot::vote> vote;
    wait_for([&] { return (vote = votes.of(r, number)) || votes.last_decided(number) >= number; });
    if (!vote) break;
    expect(vote->flags == flags_of(r, number), "a vote is wrong");
    all.flags &= vote->flags;
  }
  if (in_haste) all = with(resolution::timed_out, 0, {}, {self.rank()});
  votes.propose(number, all);
  std::optional<resolution> const out = votes.decision(number);
  expect(out.has_value(), "an agreement is not decided");
  return *out;
}

struct agreements {
  agreements(int count, std::uint64_t numbers, int hasty) : group(count, count), seen(static_cast<std::size_t>(count)) {
    p = group.running([=, this](int rank) {
      auto& own = seen[static_cast<std::size_t>(rank)];
      own.clear();
      for (std::uint64_t n = 1; n <= numbers; ++n) own.push_back(agree(group[rank], count, n, rank == hasty));
    });
    p.at_end = [this] {
      for (auto const& other : seen)
        for (std::size_t n = 0; n < other.size(); ++n)
          expect(is_same(other[n], seen[0][n]), "ranks see different decisions");
    };
  }

  ranks group;
  std::vector<std::vector<resolution>> seen;
  program p;
};

}  // namespace

TEST_CASE("all ranks see the same decision") {
  agreements patient(2, 3, -1), hasty(2, 2, 1), of_three(3, is_long_form() ? 2 : 1, -1);
  result const r = holds("ballot, 2 ranks, 3 agreements", patient.p);
  finds(patient.p, weakenings_of(r, {"decided"}));
  finds(patient.p, weakenings_of(r, {"vote"}),
        {{"vote", access::load, change::relax, acquired}, {"vote", access::store, change::relax, acquired}});
  holds("ballot, 2 ranks, 2 agreements, one in haste", hasty.p);
  holds(is_long_form() ? "ballot, 3 ranks, 2 agreements" : "ballot, 3 ranks, 1 agreement", of_three.p);
}

TEST_CASE("a late rank finds the decision unless two more have been made") {
  ranks group(2, 2);
  auto const decision = [](std::uint32_t n) {
    resolution out = with(n == 1 ? resolution::agreed : resolution::mismatched, n, {n == 1}, {n != 1});
    out.left = {n == 1};
    return out;
  };
  program const p = group.running([&](int rank) {
    detail::ballot votes = group[rank].votes();
    if (rank == 0) {
      for (std::uint32_t n = 1; n <= 3; ++n) votes.propose(n, decision(n));
      return;
    }
    std::optional<resolution> const found = votes.decision(1);
    if (!found || is_same(*found, decision(1))) return;
    expect(is_same(*found, with(resolution::timed_out, found->flags, {}, {1})), "a decision is torn");
    auto const& number = group.memory().rank(0).proposed[1].number;
    expect(votes.last_decided(3) == 3 || number.load(std::memory_order_relaxed) != 1, "a decision is lost");
  });
  result const r = holds("ballot, a late rank and 3 agreements, 2 ranks", p);
  char const* const decided = "the word of the decision, acquired before, releases it";
  finds(p, weakenings_of(r),
        {{"proposal.number", access::load, change::relax, decided},
         {"proposal.number", access::store, change::relax, decided}});
  finds(p, {{change::delay, "proposal.number", access::store, "proposal.outcome"}});
}

TEST_CASE("four ranks, at random") {
  agreements patient(4, 6, -1), hasty(4, 2, 2);
  holds_at_random("ballot, 4 ranks, 6 agreements", patient.p, 300);
  holds_at_random("ballot, 4 ranks, 2 agreements, one in haste", hasty.p, 300);
}
