// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The terms derived from the schedules are those of the literature.
#include <doctest/doctest.h>

#include <cmath>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/cost.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

terms found(algorithm_id id, collective c, int ranks) { return terms_of(find_schedule(id, c), {.ranks = ranks}); }

void check(terms t, double hops, double sent, double combined) {
  CHECK(t.hops == doctest::Approx(hops));
  CHECK(t.sent == doctest::Approx(sent));
  CHECK(t.combined == doctest::Approx(combined));
}

}  // namespace

TEST_CASE("the closed forms of Thakur, Rabenseifner and Gropp, section by section") {
  for (int const p : {2, 4, 8, 16, 32}) {
    CAPTURE(p);
    double const log = std::log2(p), most = (p - 1.0) / p;
    check(found(algorithm_id::ring, collective::all_gather, p), p - 1, most, 0);                        // 3.1
    check(found(algorithm_id::bruck, collective::all_gather, p), log, most, 0);                         // 3.1
    check(found(algorithm_id::binomial_tree, collective::broadcast, p), log, log, 0);                   // 3.2
    check(found(algorithm_id::pairwise, collective::all_to_all, p), p - 1, most, 0);                    // 3.3
    check(found(algorithm_id::bruck, collective::all_to_all, p), log, log / 2, 0);                      // 3.3
    check(found(algorithm_id::recursive_halving, collective::reduce_scatter, p), log, most, most);      // 3.4
    check(found(algorithm_id::pairwise, collective::reduce_scatter, p), p - 1, most, most);             // 3.4
    check(found(algorithm_id::binomial_tree, collective::reduce, p), log, log, log);                    // 3.5
    check(found(algorithm_id::recursive_doubling, collective::all_reduce, p), log, log, log);           // 3.6
    check(found(algorithm_id::recursive_halving, collective::all_reduce, p), 2 * log, 2 * most, most);  // 3.6
    check(found(algorithm_id::ring, collective::all_reduce, p), 2 * (p - 1), 2 * most, most);
    check(found(algorithm_id::two_shot, collective::all_reduce, p), 2, 2 * most, most);
  }
  // Where the number of ranks is not a power of two, paths differ but are no longer.
  check(found(algorithm_id::ring, collective::all_reduce, 13), 24, 24.0 / 13, 12.0 / 13);
  CHECK(found(algorithm_id::bruck, collective::all_gather, 13).hops == 4);
  CHECK(found(algorithm_id::dissemination, collective::barrier, 13).hops == 4);
}

TEST_CASE("the sum of the terms is the time, or above it") {
  model const m{.alpha = 2e-6, .beta = 1e-10, .gamma = 4e-11};
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    for (int const ranks : {2, 5, 8, 13}) {
      INFO(name(id), " ", name(c), ", ", ranks, " ranks");
      double const bytes = 1e6, sum = terms_of(s, {ranks}).seconds(bytes, m),
                   time = simulate(s, {ranks}, {bytes}, m).seconds;
      CHECK(time <= sum * (1 + 1e-9));
      CHECK(time >= sum / 3);
    }
  });
}

TEST_CASE("a long message is extrapolated from its first slices") {
  model const m{.alpha = 2e-6, .beta = 1e-10, .gamma = 4e-11};
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    shape const of{.ranks = 6};
    double const chunk = 100 * 4096.0;
    workload const work{chunk * s.chunks(of) * s.lanes(of), 4096};
    INFO(name(id), " ", name(c));
    CHECK(predict(s, of, work, m) == doctest::Approx(simulate(s, of, work, m).seconds).epsilon(0.01));
  });
}

TEST_CASE("slices stream through a tree") {
  model const m{.alpha = 1e-6, .beta = 1e-10, .gamma = 0};
  auto const tree = find_schedule(algorithm_id::double_binary_tree, collective::broadcast);
  double const bytes = 1e8, all_at_once = bytes * m.beta;
  CHECK(predict(tree, {64}, {bytes, 0}, m) > 4 * all_at_once);
  CHECK(predict(tree, {64}, {bytes, 1e5}, m) < 1.2 * all_at_once);
}
