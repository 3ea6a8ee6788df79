// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contests of tutti-tune, by times that the test invents: who is dropped, and who is not. The namespace of the tool has a name of the library.
// labels: threads alone
#include "../../tools/tune/contest.hpp"

#include "../../tools/tune/busy.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

using namespace tutti;

namespace {

// Contestants race in order, round by round, first alone and then in a row. time(contestant, round, in_a_row) is what each is told; round
// 0 touches memory.
class invented_field {
 public:
  using timing = std::function<double(std::size_t, int, bool)>;
  invented_field(std::size_t contestants, timing time) : contestants_(contestants), time_(std::move(time)) {}

  std::int64_t start() { return tuning::now(); }
  tuning::laps finish(std::vector<double> const& own, tuning::block_notes const&) {
    double const told = time_(races_ / 2 % contestants_, static_cast<int>(races_ / 2 / contestants_), races_ % 2 == 1);
    ++races_;
    return {std::vector<double>(own.size(), told), {.wall = 1e6}};
  }

 private:
  std::size_t contestants_, races_ = 0;
  timing time_;
};

// Barriers have one time of each kind, because no memory is involved.
std::vector<tuning::result> hold_barriers(std::size_t contestants, invented_field::timing const& time) {
  std::vector<tuning::result> out;
  run_threads(2, [&](communicator<loopback>& comm) {
    invented_field field(contestants, time);
    tuning::memories const memory{};
    tuning::referee judge(comm, field, memory, {.block = 1e6});
    auto const results = judge.hold({collective::barrier, 0, 2});
    if (comm.rank() == 0) out = results;
  });
  return out;
}

}  // namespace

TEST_CASE("a contestant whose first block was disturbed stays in the contest, and one that is slow does not") {
  std::size_t const all = hold_barriers(1, [](auto...) { return 100.0; }).size();
  REQUIRE(all >= 2);
  auto const results = hold_barriers(all, [](std::size_t who, int round, bool in_a_row) {
    if (who == 0) return round == 1 && in_a_row ? 1e5 : 100.0;
    return who == 1 && round <= 2 ? 250.0 : 100.0;  // who comes in which turn later depends on who is left
  });
  REQUIRE(results.size() == all);
  CHECK(results[0].blocks == 6);
  CHECK(results[0].own.alone == 100);
  CHECK(results[0].own.in_a_row == 100);
  CHECK(results[1].blocks == 2);
}

TEST_CASE("both ways to call count: who is slow in a row loses") {
  std::size_t const all = hold_barriers(1, [](auto...) { return 100.0; }).size();
  auto const results = hold_barriers(
      all, [](std::size_t who, int, bool in_a_row) { return who == 0 ? (in_a_row ? 160.0 : 90.0) : 100.0; });
  CHECK(results[0].score() == doctest::Approx(120));
  CHECK(results[1].score() == doctest::Approx(100));
}

namespace {

// Each block takes a second, of which those from `first` on lose a half to other programs, up to `last`.
class disturbed_field {
 public:
  disturbed_field(int first, int last) : first_(first), last_(last) {}

  std::int64_t start() { return tuning::now(); }
  tuning::laps finish(std::vector<double> const& own, tuning::block_notes const&) {
    bool const lost = first_ <= blocks_ && blocks_ < last_;
    ++blocks_;
    return {std::vector<double>(own.size(), lost ? 1e9 : 100), {1e9, 1e9 * blocks_, lost ? 0.5 : 0}};
  }
  int blocks() const { return blocks_; }

 private:
  int first_, last_, blocks_ = 0;
};

}  // namespace

TEST_CASE("a block that other programs disturbed is repeated, and no block starts when the time is up") {
  run_threads(1, [](communicator<loopback>& comm) {
    tuning::memories const memory{};
    disturbed_field idle(0, 0);
    tuning::referee calm(comm, idle, memory, {.block = 1e9});
    int const after_warming = 2 * static_cast<int>(calm.hold({collective::barrier, 0, 1}).size());
    disturbed_field busy(after_warming, after_warming + 2), always_busy(0, 1 << 20);
    tuning::referee repeating(comm, busy, memory, {.block = 1e9});
    auto const results = repeating.hold({collective::barrier, 0, 1});
    CHECK(busy.blocks() == idle.blocks() + 2);
    CHECK(repeating.seen().disturbed == 2);
    for (tuning::result const& r : results) CHECK(r.own.alone == 100);

    tuning::referee late(comm, always_busy, memory, {.block = 1e9, .limit = 2.5e9});
    CHECK(late.hold({collective::barrier, 0, 1}).empty());
    CHECK(late.is_late());
    CHECK(always_busy.blocks() == 3);
    CHECK(tuning::busyness(0, late.seen()) == "other programs took cores from the ranks in 3 of 3 blocks");
    CHECK(tuning::busyness(0, calm.seen()).empty());
    CHECK(tuning::busyness(0.5, calm.seen()) == "other programs had 50 % of the cores");
  });
}

TEST_CASE("a collective whose larger messages the time did not suffice for gives no rules") {
  tuning::settings s;
  s.ranks = {2};
  s.collectives = {"barrier", "broadcast"};
  s.max = 64;
  auto const barrier = tuning::result{.of = {collective::barrier, 0, 2}};
  std::vector<tuning::result> const some{barrier, {.of = {collective::broadcast, 8, 2}}};
  auto const kept = tuning::complete(s, some);
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].of.what == collective::barrier);
  CHECK_THROWS_WITH_AS((void)tuning::complete(s, {some[1]}), doctest::Contains("did not suffice"), error);
}
