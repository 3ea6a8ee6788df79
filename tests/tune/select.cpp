// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice is always one that may be made, comes from the rule that fits, and from the model where none does.
#include "tutti/tune/select.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "tutti/tune/find.hpp"

using namespace tutti;

namespace {

constexpr std::array some_rules{
    rule{.what = collective::all_reduce, .most_ranks = 4, .up_to = 512, .algorithm = algorithm_id::one_shot},
    rule{.what = collective::all_reduce, .cores = occupancy::crowded, .algorithm = algorithm_id::binomial_tree},
    rule{.what = collective::all_reduce,
         .memory = reach::pulls,
         .algorithm = algorithm_id::two_shot,
         .how = protocol::pull,
         .nanoseconds = 53'210,
         .measured_at = 524'288},
    rule{.what = collective::all_reduce, .most_ranks = 8, .algorithm = algorithm_id::ring},
    rule{.what = collective::all_to_all, .algorithm = algorithm_id::bruck},
};
constexpr costs some_costs{.hop = 1'000'000, .message = 100'000, .sent = 100'000, .combined = 50'000};

tuning with_rules() {
  return {
      owned_table{"a machine", "2026-01-02", "by hand", some_costs, some_costs, {some_rules.begin(), some_rules.end()}},
      "the table of this test"};
}

}  // namespace

TEST_CASE("whatever the problem, the choice serves it") {
  for (int ranks = 2; ranks <= 64; ranks += ranks < 34 ? 1 : 15)
    for (bool const custom : {false, true}) {
      tuning tuned = custom ? with_rules() : tuning();
      for (collective const c : every_collective)
        for (std::size_t bytes = 0; bytes < std::size_t{1} << 40; bytes = bytes * 16 + 8)
          for (int flags = 0; flags < 16; ++flags) {
            problem const p{c, bytes, ranks, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0};
            choice const chosen = tuned.select(p);
            INFO(name(c), ", ", ranks, " ranks, ", bytes, " bytes, flags ", flags);
            REQUIRE(chosen.algorithm != algorithm_id::automatic);
            REQUIRE(objection(chosen.algorithm, p).empty());
            REQUIRE((chosen.how == protocol::automatic || (chosen.how == protocol::pull && p.pulls)));
            REQUIRE(!chosen.why.empty());
          }
    }
}

TEST_CASE("objections say why") {
  CHECK(objection(algorithm_id::ring, {collective::all_reduce, 8, 4, false}).find("out of rank order") !=
        std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::barrier, 1, 4}).find("does not serve") != std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::all_to_all, 8, 4, true, true}).find("_v form") !=
        std::string_view::npos);
}

TEST_CASE("the first rule that fits decides") {
  tuning tuned = with_rules();
  auto const chosen = [&](problem const& p) { return tuned.select(p).algorithm; };
  CHECK(chosen({collective::all_reduce, 512, 4}) == algorithm_id::one_shot);
  CHECK(chosen({collective::all_reduce, 513, 4}) == algorithm_id::ring);
  CHECK(chosen({collective::all_reduce, 513, 4, true, false, true}) == algorithm_id::binomial_tree);
  choice const pulled = tuned.select({collective::all_reduce, 1 << 20, 8, true, false, false, true});
  CHECK(pulled.algorithm == algorithm_id::two_shot);
  CHECK(pulled.how == protocol::pull);
  // Rules that may not be followed are passed over, down to the model.
  CHECK(chosen({collective::all_reduce, 8, 8, false}) != algorithm_id::ring);
  CHECK(chosen({collective::all_to_all, 8, 4}) == algorithm_id::bruck);
  CHECK(chosen({collective::all_to_all, 8, 4, true, true}) != algorithm_id::bruck);
}

TEST_CASE("where no rule fits, the model decides") {
  tuning tuned = with_rules();
  auto const chosen = [&](collective c, std::size_t bytes, int ranks) {
    choice const out = tuned.select({c, bytes, ranks});
    CHECK(out.measured == nullptr);
    CHECK(out.picoseconds <= out.runner_up_picoseconds);
    CHECK(out.runner_up != out.algorithm);
    return out.algorithm;
  };
  // Few hops for small messages, the least bytes for large ones, and no root for a barrier.
  CHECK(chosen(collective::all_reduce, 8, 32) == algorithm_id::one_shot);
  CHECK(chosen(collective::all_reduce, 1024, 32) == algorithm_id::recursive_doubling);
  CHECK(chosen(collective::all_reduce, 64 << 20, 32) == algorithm_id::two_shot);
  CHECK(chosen(collective::barrier, 0, 32) != algorithm_id::binomial_tree);
  CHECK(chosen(collective::all_gather, 1 << 20, 16) == algorithm_id::one_shot);
  CHECK(chosen(collective::scan, 1 << 20, 16) == algorithm_id::recursive_doubling);
}

TEST_CASE("the reason has the time, the table and the machine") {
  tuning tuned = with_rules();
  auto const reason = [&](problem const& p, std::string_view machine) {
    return tuned.reason(tuned.select(p), machine);
  };
  CHECK(reason({collective::all_reduce, 1 << 20, 8, true, false, false, true}, "a machine") ==
        "measured: 53.2 us for 524288 bytes; a rule of the table of this test, from a machine, 2026-01-02");
  std::string const estimated = reason({collective::broadcast, 8, 16}, "another machine");
  CHECK(estimated.find("estimated: ") == 0);
  CHECK(estimated.find(" us, next ") != std::string::npos);
  CHECK(estimated.find("no rule fits") != std::string::npos);
  CHECK(estimated.find("which is not this machine: another machine") != std::string::npos);
  CHECK(this_machine().find(" cores") != std::string::npos);
}
