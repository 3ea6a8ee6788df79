// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Your own all_gather algorithm: two rings with opposite directions, each of which carries half of every block, so both
// directions of every link are busy (docs/your-own-algorithm.md). Verified, drawn, and run.
// ranks: 4
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <tutti/analyze/draw.hpp>
#include <tutti/analyze/verify.hpp>
#include <tutti/tutti.hpp>

struct two_way_ring {
  static constexpr std::string_view name = "two_way_ring";
};

// In lane 0 blocks travel to the next rank, in lane 1 to the one before. At step i a rank gets the block of the rank that is i
// hops back, and passes it on.
template <>
struct tutti::schedule<two_way_ring, tutti::collective::all_gather> : tutti::schedule_defaults {
  static constexpr bool pipelined = true;

  constexpr int lanes(tutti::shape) const { return 2; }
  constexpr int chunks(tutti::shape s) const { return s.ranks; }
  constexpr int steps(tutti::shape s, tutti::position) const { return s.ranks > 1 ? s.ranks : 0; }

  constexpr tutti::step at(tutti::shape s, tutti::position me, int i) const {
    using enum tutti::space;
    int const way = me.lane == 0 ? 1 : -1;
    tutti::chunks const block{me.rank - way * i};
    tutti::step out{
        .from = tutti::one(i == 0 ? me.rank : me.rank - way), .own = {input, block}, .keep = {output, block}};
    if (i < s.ranks - 1) out.to = tutti::one(me.rank + way);
    return out;
  }
};

namespace {

using two_way_all_gather = tutti::schedule<two_way_ring, tutti::collective::all_gather>;

void prove() {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (bool const in_place : {false, true})
      for (bool const direct : {false, true}) {
        auto const found = tutti::analyze::verify(two_way_all_gather{}, tutti::collective::all_gather, {.ranks = ranks},
                                                  {.in_place = in_place, .direct = direct, .slices = 8, .credits = 2});
        if (!found) throw std::logic_error(found.why);
      }
}

void program(tutti::communicator<tutti::shm>& comm) {
  for (std::size_t const count : {std::size_t{1}, std::size_t{1001}, std::size_t{500'000}}) {
    std::vector<int> const mine(count, comm.rank());
    std::vector<int> all(count * static_cast<std::size_t>(comm.size()), -1);
    tutti::all_gather<two_way_ring>(comm, mine, all);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != static_cast<int>(i / count)) throw std::runtime_error("a block is wrong");
  }
  comm.main_only([&] { std::printf("run on %d ranks\n", comm.size()); });
}

}  // namespace

int main() try {
  if (tutti::find_place().rank == 0) {
    prove();
    std::puts("proved for 1 to 16 ranks");
    tutti::analyze::draw_text(std::cout, two_way_all_gather{}, {.ranks = 4});
    std::cout << std::flush;
  }
  tutti::run(4, program);
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
