// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/your-own-algorithm.md.
// labels: threads
#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/analyze/cost.hpp>
#include <tutti/analyze/draw.hpp>
#include <tutti/analyze/verify.hpp>
#include <tutti/tutti.hpp>

#include "support/expect.hpp"

struct hub {
  static constexpr std::string_view name = "hub";
};

template <>
struct tutti::schedule<hub, tutti::collective::all_reduce> : tutti::schedule_defaults {
  static constexpr bool pipelined = true;

  constexpr int steps(tutti::shape s, tutti::position me) const {
    if (s.ranks == 1) return 0;
    return me.rank == 0 ? 1 : 2;
  }

  constexpr tutti::step at(tutti::shape s, tutti::position me, int i) const {
    using enum tutti::space;
    if (me.rank == 0)
      return {
          .from = tutti::everyone(s), .own = {input}, .keep = {output}, .to = tutti::others(s, 0), .complete = true};
    if (i == 0) return {.to = tutti::one(0), .give = {input}};
    return {.from = tutti::one(0), .keep = {output}};
  }
};

using hub_all_reduce = tutti::schedule<hub, tutti::collective::all_reduce>;

namespace {

using tutti::testing::expect;

struct hub_without_streaming : hub_all_reduce {
  static constexpr bool pipelined = false;
};

void prove() {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (bool const ordered : {false, true})
      for (bool const in_place : {false, true})
        for (bool const direct : {false, true}) {
          tutti::analyze::verdict const found = tutti::analyze::verify(
              hub_all_reduce{}, tutti::collective::all_reduce, {.ranks = ranks, .ordered = ordered},
              {.in_place = in_place, .direct = direct, .slices = 8, .credits = 2});
          if (!found) throw std::logic_error(found.why);
        }
}

}  // namespace

TEST_CASE("an algorithm of one's own is proved, drawn, priced and run") {
  prove();

  auto const found = tutti::analyze::verify(hub_without_streaming{}, tutti::collective::all_reduce, {.ranks = 4},
                                            {.slices = 8, .credits = 2});
  CHECK(found.why ==
        "deadlock: rank 0, lane 0, phase 0, step 0: waits for room to send chunk 0 to rank 1; "
        "rank 1, lane 0, phase 0, step 0: waits for room to send chunk 0 to rank 0");

  std::ostringstream out;
  tutti::analyze::draw_text(out, hub_all_reduce{}, {.ranks = 4});
  CHECK(out.str() ==
        "time    0     1                 2\n"
        "rank 0  .     1,2,3>c0+!>1,2,3  .\n"
        "rank 1  c0>0  .                 0>c0=\n"
        "rank 2  c0>0  .                 0>c0=\n"
        "rank 3  c0>0  .                 0>c0=\n");

  auto const price = tutti::analyze::terms_of(hub_all_reduce{}, {.ranks = 24});
  CHECK(price.hops == 2);

  tutti::run_threads(4, [](auto& comm) {
    std::vector<float> gradient(100'000, static_cast<float>(comm.rank()));
    tutti::all_reduce<hub>(comm, gradient);
    expect(gradient.back() == 6, "the hub has another sum");
  });
}
