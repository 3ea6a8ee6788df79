// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Your own all_reduce algorithm: written as a step function, verified, drawn, and run, without changing the library.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/analyze/draw.hpp>
#include <tutti/analyze/verify.hpp>
#include <tutti/tutti.hpp>

// A tree of fours. In round k the ranks r, r + 4^k, r + 2*4^k, r + 3*4^k meet at r, for all r that 4^(k+1) divides:
// four contributions in one pass over memory, half the rounds of a binomial tree. Each stands for a run of consecutive
// ranks, so ranks are combined in order and the operation need not commute. The result goes back the same way.
struct four_tree {
  static constexpr std::string_view name = "four_tree";
};

struct four_tree_place {
  int rank, ranks;

  static constexpr int distance(int round) { return 1 << 2 * round; }
  constexpr int rounds() const {  // in which this rank is met
    int k = 0;
    while (rank % distance(k + 1) == 0 && rank + distance(k) < ranks) ++k;
    return k;
  }
  constexpr tutti::peers meeting(int round) const {
    int const d = distance(round), there = (ranks - rank + d - 1) / d;
    return {rank, d, there < 4 ? there : 4};
  }
  constexpr int parent() const {
    int d = 1;
    while (rank % (4 * d) == 0) d *= 4;
    return rank - rank % (4 * d);
  }
};

struct four_tree_up : tutti::schedule_defaults {
  static constexpr bool pipelined = true;  // slices stream through the tree

  constexpr int steps(tutti::shape s, tutti::position me) const {
    int const rounds = four_tree_place{me.rank, s.ranks}.rounds();
    return me.rank > 0 && rounds == 0 ? 1 : rounds;
  }
  constexpr tutti::step at(tutti::shape s, tutti::position me, int i) const {
    using enum tutti::space;
    four_tree_place const place{me.rank, s.ranks};
    if (place.rounds() == 0) return {.to = tutti::one(place.parent()), .give = {input}};
    tutti::step out{.from = place.meeting(i), .own = {i == 0 ? input : output}, .keep = {output}};
    if (i < place.rounds() - 1) return out;
    if (me.rank == 0) out.complete = true;
    else out.keep.where = none, out.to = tutti::one(place.parent());
    return out;
  }
};

struct four_tree_down : four_tree_up {
  constexpr tutti::step at(tutti::shape s, tutti::position me, int i) const {
    four_tree_place const place{me.rank, s.ranks};
    tutti::step out{};
    if (int const round = place.rounds() - 1 - i; round >= 0) {
      tutti::peers const met = place.meeting(round);
      out.to = {met.first + met.stride, met.stride, met.count - 1};
    }
    if (me.rank > 0 && i == 0) out.from = tutti::one(place.parent()), out.keep = {tutti::space::output};
    else out.give = {tutti::space::output};
    return out;
  }
};

template <>
struct tutti::schedule<four_tree, tutti::collective::all_reduce> : tutti::then<four_tree_up, four_tree_down> {};

namespace {

using four_tree_all_reduce = tutti::schedule<four_tree, tutti::collective::all_reduce>;

// The same with a mistake: the root forgets the last of the first four.
struct forgetful : four_tree_all_reduce {
  constexpr tutti::step at(tutti::shape s, tutti::position me, int i) const {
    tutti::step out = four_tree_all_reduce::at(s, me, i);
    if (me.rank == 0 && me.phase == 0 && i == 0) --out.from.count;
    return out;
  }
};

// x -> factor * x + offset, modulo 2^32. The order in which such maps are composed matters.
struct map {
  std::uint32_t factor, offset;

  friend bool operator==(map const&, map const&) = default;
};
struct compose {
  map operator()(map const& first, map const& then) const {
    return {first.factor * then.factor, first.offset * then.factor + then.offset};
  }
};

int prove() {
  int proved = 0;
  for (int ranks = 1; ranks <= 40; ++ranks)
    for (bool const ordered : {false, true})
      for (bool const in_place : {false, true})
        for (bool const direct : {false, true}) {
          auto const v = tutti::analyze::verify(four_tree_all_reduce{}, tutti::collective::all_reduce,
                                                {.ranks = ranks, .ordered = ordered},
                                                {.in_place = in_place, .direct = direct, .slices = 3});
          if (!v) throw std::runtime_error(std::to_string(ranks) + " ranks: " + v.why);
          ++proved;
        }
  return proved;
}

void program(tutti::communicator<tutti::shm>& comm) {
  for (std::size_t const count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    auto const of_rank = [](int r, std::size_t i) {
      return map{2 * static_cast<std::uint32_t>(r) + 3, static_cast<std::uint32_t>(i) + 7};
    };
    std::vector<map> maps(count);
    for (std::size_t i = 0; i < count; ++i) maps[i] = of_rank(comm.rank(), i);
    tutti::all_reduce<four_tree>(comm, maps, compose{});
    for (std::size_t i = 0; i < count; ++i) {
      map expected = of_rank(0, i);
      for (int r = 1; r < comm.size(); ++r) expected = compose{}(expected, of_rank(r, i));
      if (maps[i] != expected) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
    }
    if (comm.is_main()) std::printf("run on %d ranks: %zu maps composed in rank order\n", comm.size(), count);
  }
}

}  // namespace

int main() try {
  if (tutti::find_place().rank == 0) {
    std::printf("proved in %d circumstances, 1 to 40 ranks\n", prove());
    auto const mistake = tutti::analyze::verify(forgetful{}, tutti::collective::all_reduce, {.ranks = 7});
    std::printf("with a mistake: %s\n\n", mistake.why.c_str());
    if (mistake.ok) throw std::runtime_error("the mistake was not found");
    tutti::analyze::draw_text(std::cout, four_tree_all_reduce{}, {.ranks = 7});
    std::cout << std::endl;
  }
  tutti::run(7, program);
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
