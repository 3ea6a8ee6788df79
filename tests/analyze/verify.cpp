// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every registered schedule is proved, for every number of ranks from 1 to 64.
// labels: optimised computes
// timeout: 180
#include <doctest/doctest.h>

#include <iterator>
#include <string>
#include <vector>

#include "support/sanitized.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/verify.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

// Up to `small` ranks everything is tried. Under a sanitizer 9 ranks are enough, because it checks the verifier.
constexpr int max_ranks_proved = testing::sanitized ? 9 : 64;
constexpr int small = testing::sanitized ? 5 : 17;

// A ring needs at least two credits: where every rank forwards, each needs a free slot before it can free one. What completes
// with two credits completes with more. Long messages have more slices than credits.
constexpr int credits = 2;
constexpr circumstances cuts[] = {
    {.slices = 1},
    {.slices = 3},
    {.slices = 5},
    {.slices = 3, .slice = 2},  // a slice of a message of several chunks may begin inside a chunk
    {.slices = 2, .slice = 3, .uneven = true},
    {.slices = 2, .slice = 3, .uneven = true, .announces = true},
};

std::vector<int> roots(collective c, int ranks) {
  if (!rooted(c)) return {0};
  if (ranks > small) return {0, ranks / 3, ranks - 1};
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  return all;
}

// Calls f(shape) for each shape that a schedule must serve with this many ranks.
template <class F>
void for_each_shape(dynamic_schedule const& s, collective c, int ranks, F f) {
  for (int const root : roots(c, ranks))
    for (bool const ordered : {false, true})
      if (!ordered || (reduces(c) && !s.needs_commutative)) f(shape{ranks, root, ordered});
}

std::string told(algorithm_id id, collective c, shape s, circumstances how, verdict const& v) {
  return std::string(name(id)) + " " + std::string(name(c)) + ", " + std::to_string(s.ranks) + " ranks, root " +
         std::to_string(s.root) + (s.ordered ? ", ordered" : "") + (how.in_place ? ", in place" : "") +
         (how.direct ? ", direct" : "") + ", " + std::to_string(how.slices) + " slices of " +
         std::to_string(how.slice) + (how.uneven ? ", uneven" : "") + (how.announces ? ", announced" : "") + ": " +
         v.why;
}

}  // namespace

TEST_CASE("every schedule does what its collective promises, wherever it says that it does") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule s) {
    for (bool const in_place : {false, true})
      for (bool const direct : {false, true}) {
        bool const claimed = (!in_place || s.in_place) && (!direct || (in_place ? s.direct_in_place : s.direct));
        bool fine = true;
        for (int ranks = 1; claimed && fine && ranks <= max_ranks_proved; ++ranks)
          for_each_shape(s, c, ranks, [&](shape of) {
            for (std::size_t k = 0; k < std::size(cuts); ++k) {
              circumstances how = cuts[k];
              if (!fine || (ranks > small && k != static_cast<std::size_t>(ranks) % std::size(cuts))) continue;
              if (how.uneven && by_block(c) && !s.ragged) continue;
              how.in_place = in_place, how.direct = direct, how.credits = credits;
              verdict const v = verify(s, c, of, how);
              CHECK_MESSAGE(v.ok, told(id, c, of, how, v));
              fine = v.ok;  // one complaint is enough
            }
          });
      }
  });
}

TEST_CASE("what a schedule says that it cannot do, it cannot") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule s) {
    auto const possible = [&](bool in_place, bool direct) {
      bool fine = true;
      for (int ranks = 2; fine && ranks <= small; ++ranks)
        for_each_shape(s, c, ranks,
                       [&](shape of) { fine = fine && verify(s, c, of, {in_place, direct, 3, credits}).ok; });
      return fine;
    };
    INFO(name(id), " ", name(c));
    CHECK(s.in_place == possible(true, false));
    CHECK(s.direct == possible(false, true));
    CHECK(s.direct_in_place == possible(true, true));
  });
}

TEST_CASE("a schedule says whether its messages can be fetched") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule s) {
    bool found = true;
    for (int ranks = 2; ranks <= small; ++ranks)
      for_each_shape(s, c, ranks, [&](shape of) {
        auto const one_chunk = [](region const& r) { return r.split || r.what.count == 1; };
        for (int rank = 0; rank < ranks; ++rank)
          for (int track = 0; track < s.lanes(of) * s.phases(of); ++track) {
            position const me{rank, track / s.phases(of), track % s.phases(of)};
            for (int i = 0; i < s.steps(of, me); ++i) {
              step const t = s.at(of, me, i);
              found &= !t.forwards() && (t.to.empty() || one_chunk(t.give));
              found &= t.from.empty() || one_chunk(t.keep) || (t.from.count == 1 && t.from.first == rank);
            }
          }
      });
    INFO(name(id), " ", name(c));
    CHECK(s.fetchable == found);
  });
}

TEST_CASE("a schedule that needs a commutative operation is not asked for rank order") {
  verdict const v =
      verify(schedule<ring, collective::all_reduce>{}, collective::all_reduce, {.ranks = 4, .ordered = true});
  CHECK_FALSE(v.ok);
  CHECK(v.why == "the schedule combines out of rank order (needs_commutative), but the call is ordered");
}

TEST_CASE("a schedule is proved by its own type as by dynamic_schedule") {
  CHECK(verify(schedule<one_shot, collective::all_reduce>{}, collective::all_reduce, {.ranks = 5}).ok);
  CHECK(verify(find_schedule(algorithm_id::one_shot, collective::all_reduce), collective::all_reduce, {.ranks = 5}).ok);
}

TEST_CASE("expressions are equal exactly if operands and parentheses are") {
  expressions e;
  auto const a = e.add({.rank = 0}), b = e.add({.rank = 1}), c = e.add({.rank = 2});
  CHECK(e.combine(a, b) == e.combine(a, b));
  CHECK(e.combine(a, b) != e.combine(b, a));
  auto const left = e.combine(e.combine(a, b), c), right = e.combine(a, e.combine(b, c));
  CHECK(left != right);
  CHECK(e.text(left) == "((0 1) 2)");
  CHECK(e.text(right) == "(0 (1 2))");
  auto const flat = [&](expressions::value v, std::size_t limit) {
    std::vector<contribution> out;
    e.flatten(v, limit, out);
    return out;
  };
  CHECK(flat(left, 9) == flat(right, 9));
  CHECK(flat(left, 2).size() == 2);
  CHECK(e.count(left) == 3);
  CHECK(e.finished(e.finish(left)));
  CHECK_FALSE(e.finished(left));
  CHECK_FALSE(e.finished(a));
}

TEST_CASE("contract: memory and promises") {
  shape const s{.ranks = 4, .root = 1};
  for (collective const c : every_collective)
    for (int rank = 0; rank < s.ranks; ++rank)
      for (int chunk = 0; chunk < s.ranks; ++chunk) {
        promise const p = promise_of(c, s, rank, chunk);
        CHECK(p.first >= 0);
        CHECK(p.first + p.count <= s.ranks);
        // A rank whose contribution is promised must have it.
        if (has(output_of(c, s, rank), rank, chunk))
          for (int from = p.first; from < p.first + p.count; ++from) CHECK(has(input_of(c, s, from), from, p.chunk));
      }
  CHECK(promise_of(collective::exclusive_scan, s, 0, 0).count == 0);
  CHECK(promise_of(collective::all_to_all, s, 2, 3).chunk == 2);
  CHECK(output_of(collective::broadcast, s, 1) == holding::none);
}
