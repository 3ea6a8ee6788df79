// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contests of tutti-tune, by times that the test invents: who is dropped, and who is not. The namespace of the tool has a name of the library.
// labels: threads alone
#include "../../tools/tune/contest.hpp"

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
  tuning::laps finish(std::vector<double> const& own, double) {
    double const told = time_(races_ / 2 % contestants_, static_cast<int>(races_ / 2 / contestants_), races_ % 2 == 1);
    ++races_;
    return {std::vector<double>(own.size(), told), 1e6};
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
    tuning::referee judge(comm, field, memory, 1e6);
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
