// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules that are broken on purpose: the verifier must reject each, and say what is wrong and where.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/verify.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

// A schedule with one change to its steps.
template <class Base, class Change>
struct altered : Base {
  step at(shape s, position me, int i) const {
    step t = Base::at(s, me, i);
    Change{}(s, me, i, t);
    return t;
  }
};

// A schedule without the last step of one rank.
template <class Base, int Rank>
struct shortened : Base {
  int steps(shape s, position me) const { return Base::steps(s, me) - (me.rank == Rank ? 1 : 0); }
};

constexpr circumstances two_credits{.slices = 1, .credits = 2};

template <class S>
std::string complaint(collective c, shape s, circumstances how = two_credits) {
  verdict const v = verify(dynamic_schedule::of<S>(), c, s, how);
  CHECK(v.ok == v.why.empty());
  return v.why;
}

using ring_all_reduce = schedule<ring, collective::all_reduce>;
using ring_reduce_scatter = schedule<ring, collective::reduce_scatter>;
using ring_all_gather = schedule<ring, collective::all_gather>;
using ring_broadcast = schedule<ring, collective::broadcast>;
using doubling_all_reduce = schedule<recursive_doubling, collective::all_reduce>;
using one_shot_all_reduce = schedule<one_shot, collective::all_reduce>;
using one_shot_reduce = schedule<one_shot, collective::reduce>;
using one_shot_broadcast = schedule<one_shot, collective::broadcast>;
using pairwise_all_to_all = schedule<pairwise, collective::all_to_all>;

// A schedule for two ranks whose only step is written out, for mistakes that no shipped schedule comes close to.
template <class Step>
struct by_hand : schedule_defaults {
  int chunks(shape) const { return 3; }
  int steps(shape, position) const { return 1; }
  step at(shape, position me, int) const { return Step{}(me.rank); }
};

struct undeclared : schedule<binomial_tree, collective::reduce> {
  static constexpr bool scratch = false;
};

struct with_all_chunks : ring_broadcast {
  static constexpr bool pipelined = true;
  int chunks(shape) const { return 2; }
  step at(shape s, position me, int i) const {
    step t = ring_broadcast::at(s, me, i);
    t.give.what.count = t.keep.what.count = 2;
    return t;
  }
};

}  // namespace

TEST_CASE("the schedules that are broken here are right before") {
  CHECK(complaint<ring_reduce_scatter>(collective::reduce_scatter, {.ranks = 4}) == "");
  CHECK(complaint<ring_all_reduce>(collective::all_reduce, {.ranks = 4}) == "");
  CHECK(complaint<doubling_all_reduce>(collective::all_reduce, {.ranks = 4}) == "");
  CHECK(complaint<one_shot_reduce>(collective::reduce, {.ranks = 4}) == "");
  CHECK(complaint<ring_broadcast>(collective::broadcast, {.ranks = 4}) == "");
  CHECK(complaint<pairwise_all_to_all>(collective::all_to_all, {.ranks = 4}) == "");
}

TEST_CASE("a chunk that is off by one") {
  using broken = altered<ring_reduce_scatter, decltype([](shape, position me, int i, step& t) {
                           if (me.rank == 1 && i == 2) ++t.keep.what.first;
                         })>;
  CHECK(complaint<broken>(collective::reduce_scatter, {.ranks = 4}) ==
        "rank 1, lane 0, phase 0, step 2: expects chunk 3 from rank 0, which sent chunk 2");
}

TEST_CASE("a chunk of one's own that is off by one") {
  using broken = altered<one_shot_all_reduce, decltype([](shape, position me, int, step& t) {
                           if (me.rank == 2) t.own.what.first = 1;
                         })>;
  struct two_chunks : broken {
    int chunks(shape) const { return 2; }
  };
  CHECK(complaint<two_chunks>(collective::all_reduce, {.ranks = 3}) ==
        "rank 2, lane 0, phase 0, step 0: takes its own chunk 1 for chunk 0");
}

TEST_CASE("the content of one chunk under the number of another") {
  // In an all-to-all numbers change on the way, so only the contents can tell.
  using broken = altered<pairwise_all_to_all, decltype([](shape, position me, int i, step& t) {
                           if (me.rank == 1 && i > 0) t.give.what.first += 1;
                         })>;
  CHECK(complaint<broken>(collective::all_to_all, {.ranks = 4}) ==
        "rank 0, lane 0: output chunk 1 holds chunk 1 of rank 1 where chunk 0 of rank 1 belongs");
}

TEST_CASE("a step that is missing") {
  CHECK(complaint<shortened<ring_broadcast, 1>>(collective::broadcast, {.ranks = 3}) ==
        "deadlock: rank 2, lane 0, phase 0, step 0: waits for chunk 0 from rank 1, which has finished");
  CHECK(complaint<shortened<ring_all_gather, 2>>(collective::all_gather, {.ranks = 3}) ==
        "rank 1, lane 0, phase 0: sends chunk 0 to rank 2, which never receives it");
}

TEST_CASE("a send that nobody receives") {
  using broken = altered<ring_broadcast, decltype([](shape s, position me, int, step& t) {
                           if (me.rank == s.ranks - 1) t.to = one(0);
                         })>;
  CHECK(complaint<broken>(collective::broadcast, {.ranks = 4}) ==
        "rank 3, lane 0, phase 0: sends chunk 0 to rank 0, which never receives it");
}

TEST_CASE("a contribution that is lost") {
  using broken = altered<one_shot_reduce, decltype([](shape s, position me, int, step& t) {
                           if (me.rank == 2) t.to = {};
                           if (me.rank == s.root) t.from.count = 2, t.complete = false;
                         })>;
  CHECK(complaint<broken>(collective::reduce, {.ranks = 3}) ==
        "rank 0, lane 0: output chunk 0 holds the contribution of rank 2 0 times, but that of each of ranks 0 to 2 "
        "belongs there once");
}

TEST_CASE("a contribution that comes twice") {
  CHECK(complaint<schedule<dissemination, collective::barrier>>(collective::barrier, {.ranks = 3}) == "");
  CHECK(complaint<schedule<dissemination, collective::barrier>>(collective::all_reduce, {.ranks = 3}) ==
        "rank 0, lane 0: output chunk 0 holds the contribution of rank 0 2 times, but that of each of ranks 0 to 2 "
        "belongs there once");
}

TEST_CASE("contributions out of rank order") {
  using broken = altered<one_shot_reduce, decltype([](shape s, position me, int, step& t) {
                           if (me.rank == s.root) t.from = {me.rank, 1, s.ranks};
                         })>;
  CHECK(complaint<broken>(collective::reduce, {.ranks = 3, .root = 1}) == "");
  CHECK(complaint<broken>(collective::reduce, {.ranks = 3, .root = 1, .ordered = true}) ==
        "rank 1, lane 0: output chunk 0 is combined as ((1 2) 0), which is not rank order");
}

TEST_CASE("different parentheses at two ranks") {
  using broken = altered<one_shot_all_reduce, decltype([](shape s, position me, int, step& t) {
                           if (me.rank == 2) t.from = {me.rank, 1, s.ranks};
                         })>;
  CHECK(complaint<broken>(collective::all_reduce, {.ranks = 3}) ==
        "rank 2, lane 0: output chunk 0 is combined as ((2 0) 1), but at rank 0 as ((0 1) 2): their bits may differ");
}

TEST_CASE("one message of two chunks where two messages are expected") {
  // The chunks are the right ones, but the receiver finds a slice after which more is to follow.
  struct together : schedule_defaults {
    int chunks(shape) const { return 2; }
    int steps(shape s, position me) const { return me.rank == s.root ? 1 : 2; }
    step at(shape s, position me, int i) const {
      if (me.rank == s.root) return {.to = one(1 - s.root), .give = {space::input, {0, 2}}};
      return {.from = one(s.root), .keep = {space::output, {i}}};
    }
  };
  CHECK(complaint<together>(collective::broadcast, {.ranks = 2}) ==
        "rank 1, lane 0, phase 0, step 0: expects a slice of 1 element from rank 0, which sent 1 and more");
}

TEST_CASE("blocks of another length than the receiver expects") {
  using broken = altered<schedule<pairwise, collective::all_gather>, decltype([](shape, position me, int i, step& t) {
                           if (me.rank == 1 && i == 1) t.give.what = {1, 2};
                         })>;
  circumstances const uneven{.slices = 3, .credits = 2, .slice = 2, .uneven = true};
  CHECK(complaint<schedule<pairwise, collective::all_gather>>(collective::all_gather, {.ranks = 3}, uneven) == "");
  CHECK(complaint<broken>(collective::all_gather, {.ranks = 3}, uneven) != "");
  using transposed = altered<pairwise_all_to_all, decltype([](shape, position me, int i, step& t) {
                               if (i > 0) t.give.what.first = me.rank;
                             })>;
  CHECK(complaint<transposed>(collective::all_to_all, {.ranks = 3}, uneven).find("expects a slice of") !=
        std::string::npos);
}

TEST_CASE("a circle of ranks that all receive first") {
  struct receive_first : schedule_defaults {
    int chunks(shape s) const { return s.ranks; }
    int steps(shape, position) const { return 2; }
    step at(shape s, position me, int i) const {
      if (i == 0) return {.from = one(me.rank - 1), .keep = {space::output, {me.rank - 1}}};
      return {.to = others(s, me.rank), .give = {space::input, {me.rank}}};
    }
  };
  CHECK(complaint<receive_first>(collective::all_gather, {.ranks = 3}) ==
        "deadlock: rank 0, lane 0, phase 0, step 0: waits for chunk 2 from rank 2; "
        "rank 2, lane 0, phase 0, step 0: waits for chunk 1 from rank 1; "
        "rank 1, lane 0, phase 0, step 0: waits for chunk 0 from rank 0");
}

TEST_CASE("a circle of ranks that all send more than channels hold") {
  struct send_first : schedule_defaults {
    int chunks(shape) const { return 2; }
    int steps(shape, position) const { return 2; }
    step at(shape, position me, int i) const {
      int const r = me.rank, other = 1 - r;
      if (i == 0) return {.to = one(other), .give = {space::input, {r}}};
      return {.from = two(other, r), .own = {space::input, {other}}, .keep = {space::output, {other}}};
    }
  };
  circumstances const how{.slices = 2, .credits = 1};
  CHECK(complaint<send_first>(collective::all_to_all, {.ranks = 2}, how) ==
        "deadlock: rank 0, lane 0, phase 0, step 0: waits for room to send chunk 0 to rank 1; "
        "rank 1, lane 0, phase 0, step 0: waits for room to send chunk 1 to rank 0");
}

TEST_CASE("memory that nobody wrote") {
  using broken = altered<schedule<binomial_tree, collective::reduce>, decltype([](shape, position me, int, step& t) {
                           if (me.rank == 4 && t.own.where == space::input) t.own.where = space::scratch;
                         })>;
  CHECK(complaint<broken>(collective::reduce, {.ranks = 7}) ==
        "rank 4, lane 0, phase 0, step 0: reads scratch chunk 0, which nobody wrote");
}

TEST_CASE("memory that a rank does not have") {
  using no_input = altered<one_shot_broadcast, decltype([](shape s, position me, int, step& t) {
                             if (me.rank != s.root) t = {.to = one(s.root), .give = {space::input}};
                           })>;
  CHECK(complaint<no_input>(collective::broadcast, {.ranks = 2}) ==
        "rank 1, lane 0, phase 0, step 0: reads input chunk 0 that it does not have");
  using no_output = altered<one_shot_all_reduce, decltype([](shape, position, int, step&) {})>;
  CHECK(complaint<no_output>(collective::reduce, {.ranks = 2}) ==
        "rank 1, lane 0, phase 0, step 0: writes output chunk 0 that it does not have");
  CHECK(complaint<undeclared>(collective::reduce, {.ranks = 7}) ==
        "rank 4, lane 0, phase 0, step 0: writes scratch chunk 0 that it does not have");
}

TEST_CASE("the input is written to") {
  using broken =
      altered<one_shot_all_reduce, decltype([](shape, position, int, step& t) { t.keep.where = space::input; })>;
  CHECK(complaint<broken>(collective::all_reduce, {.ranks = 2}) ==
        "rank 0, lane 0, phase 0, step 0: writes to its input");
}

TEST_CASE("memory that a peer has yet to read") {
  circumstances const direct{.direct = true, .slices = 1, .credits = 2};
  CHECK(complaint<doubling_all_reduce>(collective::all_reduce, {.ranks = 4}, direct) ==
        "deadlock: rank 0, lane 0, phase 0, step 1: waits to overwrite chunk 0, which rank 2 has yet to read; "
        "rank 2, lane 0, phase 0, step 1: waits to overwrite chunk 0, which rank 0 has yet to read");
}

TEST_CASE("in place, a block that is overwritten before it leaves") {
  circumstances const in_place{.in_place = true, .slices = 1, .credits = 2};
  CHECK(complaint<pairwise_all_to_all>(collective::all_to_all, {.ranks = 3}, in_place) ==
        "rank 0, lane 0: output chunk 1 holds chunk 1 of rank 0 where chunk 0 of rank 1 belongs");
}

TEST_CASE("a chunk that the same step has still to send") {
  // The halves of a step run side by side, so timing would decide whether the old or the new content is sent.
  using broken = by_hand<decltype([](int rank) -> step {
    return {
        .from = one(1 - rank), .keep = {space::output, {1, 2}}, .to = one(1 - rank), .give = {space::input, {0, 2}}};
  })>;
  circumstances const in_place{.in_place = true, .slices = 1, .credits = 2};
  CHECK(complaint<broken>(collective::all_reduce, {.ranks = 2}, in_place)
            .find("overwrites output chunk 1 before it is sent") != std::string::npos);
}

TEST_CASE("a completion that is missing, early, or elsewhere") {
  using missing = altered<one_shot_reduce, decltype([](shape, position, int, step& t) { t.complete = false; })>;
  CHECK(complaint<missing>(collective::reduce, {.ranks = 3}) ==
        "rank 0, lane 0, phase 0, step 0: combines the last contribution to chunk 0 but is not marked "
        "complete");
  using early = altered<ring_reduce_scatter, decltype([](shape, position me, int i, step& t) {
                          if (me.rank == 0 && i == 1) t.complete = true;
                        })>;
  CHECK(complaint<early>(collective::reduce_scatter, {.ranks = 4}) ==
        "rank 0, lane 0, phase 0, step 1: is marked complete, but does not combine the last contribution to chunk 2");
  using twice = altered<schedule<binomial_tree, collective::all_reduce>, decltype([](shape, position me, int, step& t) {
                          if (me.phase == 1 && me.rank == 1) t.complete = true;
                        })>;
  CHECK(complaint<twice>(collective::all_reduce, {.ranks = 4}) ==
        "rank 1, lane 0, phase 1, step 0: is marked complete, but does not combine the last contribution to chunk 0");
  struct needless : altered<schedule<one_shot, collective::scan>,
                            decltype([](shape, position, int, step& t) { t.complete = true; })> {};
  CHECK(complaint<needless>(collective::scan, {.ranks = 2}).find("does not combine the last contribution to chunk 0") !=
        std::string::npos);
}

TEST_CASE("a complete result that is combined once more") {
  struct again : one_shot_all_reduce {
    int steps(shape, position) const { return 2; }
    step at(shape s, position me, int i) const {
      step t = one_shot_all_reduce::at(s, me, 0);
      if (i == 1) t.own.where = t.give.where = space::output;
      return t;
    }
  };
  CHECK(complaint<again>(collective::all_reduce, {.ranks = 2}) ==
        "rank 0, lane 0, phase 0, step 1: combines chunk 0, which is complete already, once more");
}

TEST_CASE("an output that is never written") {
  using broken = altered<one_shot_broadcast, decltype([](shape s, position me, int, step& t) {
                           if (me.rank == s.root) t.to = one(1);
                           else if (me.rank == 2) t = {};
                         })>;
  CHECK(complaint<broken>(collective::broadcast, {.ranks = 3}) == "rank 2, lane 0: output chunk 0 is never written");
}

TEST_CASE("a phase that does not wait for the one before") {
  // The second phase reads what the first one keeps, but the first one is at another rank.
  struct unordered : schedule_defaults {
    int phases(shape) const { return 2; }
    int steps(shape, position me) const { return me.rank == me.phase ? 1 : 0; }
    step at(shape, position me, int) const {
      if (me.rank == 0) return {.from = one(0), .own = {space::input}, .keep = {space::output}};
      return {.from = two(0, 1), .own = {space::output}, .keep = {space::output}};
    }
  };
  CHECK(complaint<unordered>(collective::scan, {.ranks = 2}) ==
        "deadlock: rank 1, lane 0, phase 1, step 0: waits for chunk 0 from rank 0, which has finished");
}

TEST_CASE("steps that mean nothing") {
  auto const says = [](std::string const& why, char const* what) { return why.find(what) != std::string::npos; };
  using peer_twice = by_hand<decltype([](int) -> step { return {.to = {0, 1, 3}, .give = {space::input}}; })>;
  CHECK(says(complaint<peer_twice>(collective::all_reduce, {.ranks = 2}), "names a peer twice"));
  using fewer_than_none = by_hand<decltype([](int) -> step { return {.from = {0, 1, -1}, .keep = {space::output}}; })>;
  CHECK(says(complaint<fewer_than_none>(collective::all_reduce, {.ranks = 2}), "names fewer than 0 peers"));
  using no_run = by_hand<decltype([](int) -> step { return {.keep = {space::output, {0, 1, 0}}}; })>;
  CHECK(complaint<no_run>(collective::all_reduce, {.ranks = 2}) ==
        "rank 0, lane 0, phase 0, step 0: names fewer than 0 chunks, or runs of fewer than 1");
  using too_many_chunks =
      by_hand<decltype([](int rank) -> step { return {.to = one(1 - rank), .give = {space::input, {0, 4}}}; })>;
  CHECK(says(complaint<too_many_chunks>(collective::all_reduce, {.ranks = 2}),
             "names more chunks in a message than there are"));
  using uneven_give =
      by_hand<decltype([](int) -> step { return {.to = {0, 1, 2}, .give = {space::input, {0, 3}, true}}; })>;
  CHECK(
      says(complaint<uneven_give>(collective::all_reduce, {.ranks = 2}), "splits chunks among peers, but not as many"));
  using uneven_keep =
      by_hand<decltype([](int) -> step { return {.from = {0, 1, 2}, .keep = {space::output, {0, 3}, true}}; })>;
  CHECK(
      says(complaint<uneven_keep>(collective::all_reduce, {.ranks = 2}), "splits chunks among peers, but not as many"));
  using drops = by_hand<decltype([](int rank) -> step { return {.from = one(1 - rank)}; })>;
  CHECK(says(complaint<drops>(collective::all_reduce, {.ranks = 2}), "neither keeps nor passes on what it receives"));
  using from_nowhere = by_hand<decltype([](int rank) -> step { return {.to = one(1 - rank)}; })>;
  CHECK(says(complaint<from_nowhere>(collective::all_reduce, {.ranks = 2}), "passes on a result, but forms none"));
  using empty_hands = by_hand<decltype([](int rank) -> step { return {.from = one(rank), .keep = {space::output}}; })>;
  CHECK(says(complaint<empty_hands>(collective::all_reduce, {.ranks = 2}),
             "is among its sources, but contributes nothing"));
  using other_count = by_hand<decltype([](int rank) -> step {
    return {.from = one(rank), .own = {space::input, {0, 2}}, .keep = {space::output, {0, 3}}};
  })>;
  CHECK(says(complaint<other_count>(collective::all_reduce, {.ranks = 2}),
             "contributes another number of chunks than it receives"));
  CHECK(says(complaint<with_all_chunks>(collective::broadcast, {.ranks = 2}),
             "moves several chunks in a message, but the schedule is pipelined"));
}

TEST_CASE("schedules that mean nothing") {
  struct too_many : ring_broadcast {
    int lanes(shape) const { return max_tracks; }
    int phases(shape) const { return 2; }
  };
  CHECK(complaint<too_many>(collective::broadcast, {.ranks = 2}) == "4 lanes of 2 phases are more than max_tracks");
  CHECK(complaint<ring_broadcast>(collective::all_gather, {.ranks = 2}) ==
        "a chunk must be a rank's block, but there are 1 chunk for 2 ranks");
  struct alone : ring_broadcast {
    int steps(shape, position) const { return 1; }
  };
  CHECK(complaint<alone>(collective::broadcast, {.ranks = 1}) == "one rank alone must have no steps");
  struct no_chunks : ring_broadcast {
    int chunks(shape) const { return 0; }
  };
  CHECK(complaint<no_chunks>(collective::broadcast, {.ranks = 2}) == "lanes, phases and chunks must be at least 1");
  struct fewer_than_none : ring_broadcast {
    int steps(shape, position me) const { return me.rank == 1 ? -1 : 1; }
  };
  CHECK(complaint<fewer_than_none>(collective::broadcast, {.ranks = 2}) == "rank 1 has -1 steps");
  CHECK(complaint<ring_broadcast>(collective::broadcast, {.ranks = 2, .root = 2}) == "2 ranks with root 2");
  struct throws : ring_broadcast {
    step at(shape s, position me, int i) const {
      if (me.rank == 1) throw std::out_of_range("no step for rank 1");
      return ring_broadcast::at(s, me, i);
    }
  };
  CHECK(complaint<throws>(collective::broadcast, {.ranks = 2}) == "the schedule throws: no step for rank 1");
}
