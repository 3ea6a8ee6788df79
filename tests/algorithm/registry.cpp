// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names, ids and schedules of the registry belong together; step functions are usable in constant expressions.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tutti/algorithm/registry.hpp"

using namespace tutti;
using namespace tutti::detail;

static_assert(schedule<ring, collective::all_reduce>{}.at({4}, {0}, 3).complete);
static_assert(schedule<double_binary_tree, collective::broadcast>{}.lanes({9}) == 2);
static_assert(!serves<bruck, collective::all_reduce>);

namespace {

// A schedule that inherits nothing, with the properties that every schedule must have.
struct without_defaults {
  static constexpr bool needs_commutative = false, pipelined = false, in_place = true, direct = true;
  static constexpr bool direct_in_place = true, fetchable = false, scratch = false, ragged = true;
  constexpr int lanes(shape) const { return 1; }
  constexpr int phases(shape) const { return 1; }
  constexpr int chunks(shape) const { return 1; }
  constexpr int steps(shape, position) const { return 0; }
  constexpr step at(shape, position, int) const { return {}; }
};

}  // namespace

static_assert(!dynamic_schedule::of<without_defaults>().at_once);
static_assert(!then<without_defaults, schedule<one_shot, collective::all_reduce>>::at_once);
static_assert(then<schedule<one_shot, collective::all_to_all>, without_defaults>::ragged);
static_assert(!then<schedule<bruck, collective::all_to_all>, without_defaults>::ragged);
static_assert(combines_in_one_step<schedule<one_shot, collective::all_reduce>>);

TEST_CASE("every algorithm is found by its name and serves something") {
  for (std::size_t i = 0; i < algorithms::size; ++i) {
    algorithm_id const id = find_algorithm(algorithms::names[i]);
    CHECK(name(id) == algorithms::names[i]);
    bool serves_any = false;
    for (collective const c : every_collective) serves_any |= bool(find_schedule(id, c));
    CHECK(serves_any);
  }
  CHECK(find_algorithm("bing") == algorithm_id::automatic);
}

TEST_CASE("every collective has an algorithm that keeps rank order, and one_shot serves all") {
  for (collective const c : every_collective) {
    bool ordered = false;
    for_each_schedule([&](algorithm_id, collective served, dynamic_schedule const& s) {
      ordered |= served == c && !s.needs_commutative;
    });
    CHECK(ordered);
    CHECK(find_schedule(algorithm_id::one_shot, c));
  }
}

TEST_CASE("a schedule that combines at once has one step that combines, of all contributions in rank order") {
  int found = 0;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    if (!s.at_once) return;
    CAPTURE(std::string(name(id)));
    CAPTURE(std::string(name(c)));
    found += reduces(c);
    for (int ranks = 2; ranks <= 9; ++ranks)
      for (int rank = 0; rank < ranks; ++rank) {
        shape const of{ranks, ranks / 2, true};
        int combined = 0;  // contributions to an element
        for (int phase = 0; phase < s.phases(of); ++phase)
          for (int i = 0; i < s.steps(of, {rank, 0, phase}); ++i) {
            step const t = s.at(of, {rank, 0, phase}, i);
            if (t.from.count < 2 || t.keep.split) continue;
            CHECK(combined == 0);
            combined = t.from.count;
            for (int k = 0; k < combined; ++k) CHECK(t.from.at(k, ranks) == k);
          }
        int const due = c == collective::scan ? rank + 1 : c == collective::exclusive_scan ? rank : ranks;
        CHECK((combined == due || combined == 0));
        if (due > 1 && !(c == collective::reduce && id == algorithm_id::one_shot && rank != of.root))
          CHECK(combined == due);
      }
  });
  CHECK(found >= 7);
}

TEST_CASE("a schedule behind pointers says the same as its type") {
  schedule<binomial_tree, collective::all_reduce> const typed;
  dynamic_schedule const dynamic = find_schedule(algorithm_id::binomial_tree, collective::all_reduce);
  shape const s{13, 0, false};
  for (int rank = 0; rank < s.ranks; ++rank)
    for (int phase = 0; phase < typed.phases(s); ++phase) {
      position const me{rank, 0, phase};
      REQUIRE(dynamic.steps(s, me) == typed.steps(s, me));
      for (int i = 0; i < typed.steps(s, me); ++i) {
        step const a = typed.at(s, me, i), b = dynamic.at(s, me, i);
        CHECK(a.from.first == b.from.first);
        CHECK(a.to.first == b.to.first);
        CHECK(a.keep.where == b.keep.where);
        CHECK(a.complete == b.complete);
      }
    }
  CHECK(dynamic.pipelined == typed.pipelined);
}

TEST_CASE("chunks: ranges, progressions and Bruck's runs") {
  chunks const range{5, 3}, backwards{1, 4, 1, -1}, runs{2, 5, 2, 4};
  CHECK(range.at(2, 6) == 1);
  CHECK(backwards.at(3, 7) == 5);
  int const expected[] = {2, 3, 6, 7, 10};
  for (int k = 0; k < 5; ++k) CHECK(runs.at(k, 11) == expected[k]);
}

TEST_CASE("the trees of a double binary tree reach every rank once, and few ranks work in both") {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    shape const s{ranks};
    int inner_in_both = 0;
    std::set<int> reached[2];
    for (int rank = 0; rank < ranks; ++rank) {
      int inner = 0;
      for (int lane : {0, 1}) {
        step const t = schedule<double_binary_tree, collective::broadcast>{}.at(s, {rank, lane, 0}, 0);
        for (int k = 0; k < t.to.count; ++k) CHECK(reached[lane].insert(t.to.at(k, ranks)).second);
        inner += !t.to.empty();
      }
      inner_in_both += rank != 0 && inner == 2;
    }
    CHECK(reached[0].size() == static_cast<std::size_t>(ranks - 1));
    CHECK(reached[1].size() == static_cast<std::size_t>(ranks - 1));
    CHECK(inner_in_both <= 1);
  }
}
