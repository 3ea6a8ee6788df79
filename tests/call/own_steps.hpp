// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls by an algorithm of the program's own of which one step would leave a rank's memory are refused. Each is right until
// `spoil` changes a step.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace own_steps {

using namespace tutti;

struct spoilt {
  static constexpr std::string_view name = "spoilt";
};

// Changes step i; null changes nothing.
using change = void (*)(position me, int i, step& t);
inline change spoil = nullptr;
inline int missing_steps = 0;

inline step spoiled(step t, position me, int i) {
  if (spoil != nullptr) spoil(me, i, t);
  return t;
}

}  // namespace own_steps

template <>
struct tutti::schedule<own_steps::spoilt, tutti::collective::all_reduce> : schedule_defaults {
  int steps(shape, position) const { return 2 - own_steps::missing_steps; }
  step at(shape s, position me, int i) const {
    using enum space;
    step const combines{.from = everyone(s), .own = {input}, .keep = {output}, .complete = true};
    step const returns{.to = others(s, 0), .give = {output}};
    step const sends{.to = one(0), .give = {input}};
    step const receives{.from = one(0), .keep = {output}};
    return own_steps::spoiled(me.rank == 0 ? i == 0 ? combines : returns : i == 0 ? sends : receives, me, i);
  }
};
template <>
struct tutti::schedule<own_steps::spoilt, tutti::collective::gather> : schedule_defaults {
  int chunks(shape s) const { return s.ranks; }
  int steps(shape, position) const { return 1; }
  step at(shape s, position me, int i) const {
    step const all{.from = everyone(s), .own = {space::input, {me.rank}}, .keep = {space::output, {0, s.ranks}, true}};
    step const mine{.to = one(s.root), .give = {space::input, {me.rank}}};
    return own_steps::spoiled(me.rank == s.root ? all : mine, me, i);
  }
};

namespace own_steps {

struct mistake {
  std::string_view words;  // of the error
  change how;
};

inline constexpr mistake in_all_reduce[]{
    {"step 0 of rank 0, lane 0, phase 0, names fewer than 0 peers",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.from.count = -1;
     }},
    {"step 0 of rank 1, lane 0, phase 0, names fewer than 0 peers",
     [](position me, int i, step& t) {
       if (me.rank == 1 && i == 0) t.to.count = -1;
     }},
    {"names a peer twice",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.from.count = 100'000;
     }},
    {"names a peer twice",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.from.stride = 0;
     }},
    {"names a peer twice",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 1) t.to.count = 4;
     }},
    {"names fewer than 0 chunks, or runs of fewer than 1",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.what.count = -1;
     }},
    {"names fewer than 0 chunks, or runs of fewer than 1",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.what.run = 0;
     }},
    {"names fewer than 0 chunks, or runs of fewer than 1",  // of a region that the step does not use
     [](position me, int i, step& t) {
       if (me.rank == 1 && i == 0) t.keep.what.run = 0;
     }},
    {"names more chunks in a message than there are",
     [](position me, int i, step& t) {
       if (me.rank == 1 && i == 0) t.give.what.count = 1'000'000;
     }},
    {"splits chunks among peers, but not as many",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.split = true;
     }},
    {"writes to its input",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.where = space::input;
     }},
    {"writes to memory that the rank does not have",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.where = space::scratch;
     }},
    {"writes to memory that the rank does not have",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.keep.where = static_cast<space>(77);
     }},
    {"sends from memory that the rank does not have",
     [](position me, int i, step& t) {
       if (me.rank == 1 && i == 0) t.give.where = space::scratch;
     }},
    {"is among its sources, but contributes nothing",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.own = {};
     }},
    {"contributes memory that the rank does not have",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.own.where = space::scratch;
     }},
    {"contributes another number of chunks than it receives",
     [](position me, int i, step& t) {
       if (me.rank == 0 && i == 0) t.own.what.count = 0;
     }},
    {"neither keeps nor passes on what it receives",
     [](position me, int i, step& t) {
       if (me.rank == 2 && i == 1) t.keep = {};
     }},
    {"passes on a result, but forms none",
     [](position me, int i, step& t) {
       if (me.rank == 2 && i == 0) t.give = {};
     }},
};

// The root is rank 1.
inline constexpr mistake in_gather[]{
    {"writes to memory that the rank does not have",
     [](position me, int, step& t) {
       if (me.rank == 0) t = {.from = one(1), .keep = {space::output, {0}}};
     }},
    {"sends from memory that the rank does not have",
     [](position me, int, step& t) {
       if (me.rank == 0) t.give.where = space::output;
     }},
    {"step 0 of rank 2, lane 0, phase 0, sends from memory that the rank does not have",
     [](position me, int, step& t) {
       if (me.rank == 2) t.give.what.first += 100'000;
     }},
    {"contributes memory that the rank does not have",
     [](position me, int, step& t) {
       if (me.rank == 1) t.own.what.first = 0;
     }},
    {"contributes several chunks where it keeps one",
     [](position me, int, step& t) {
       if (me.rank == 1) t.own = {space::output, {0, 3}};
     }},
};

// `run` is run_threads or run_local. The error is that of the whole run.
template <class Run, class Call>
std::string refusal_of(Run run, Call call) {
  try {
    run(3, call);
  } catch (error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

template <class Run>
void check_refusals(Run run) {
  using testing::contains;
  auto const sum_up = [](auto& comm) {
    std::vector<int> const in(1000, 1);
    std::vector<int> out(in.size());
    all_reduce<spoilt>(comm, in, out, sum{});
    testing::expect(out == std::vector<int>(1000, 3), "a wrong sum");
  };
  auto const collect = [](auto& comm) {
    std::vector<int> const in(1000, comm.rank());
    std::vector<int> out(comm.rank() == 1 ? 3 * in.size() : 0);
    gather<spoilt>(comm, in, out, 1);
    testing::expect(out.empty() || (out[0] == 0 && out[1000] == 1 && out[2999] == 2), "a wrong block");
  };
  auto const collect_unevenly = [](auto& comm) {
    std::vector<int> const in(static_cast<std::size_t>(comm.rank()) + 1, comm.rank());
    std::vector<int> out(comm.rank() == 1 ? 6 : 0);
    gather_v<spoilt>(comm, in, out, std::array<std::size_t, 3>{1, 2, 3}, {}, 1);
    testing::expect(out.empty() || out == std::vector{0, 1, 1, 2, 2, 2}, "a wrong block");
  };
  CHECK_NOTHROW(run(3, sum_up));
  CHECK_NOTHROW(run(3, collect));
  CHECK_NOTHROW(run(3, collect_unevenly));

  auto const check = [&](mistake const& m, auto const& call, std::string const& head) {
    spoil = m.how;
    std::string const text = refusal_of(run, call);
    spoil = nullptr;
    CAPTURE(text);
    CHECK_MESSAGE(contains(text, head), m.words);
    CHECK_MESSAGE(contains(text, std::string(m.words)), m.words);
    CHECK(contains(text, "correct its schedule; tutti::analyze::verify finds all that is wrong with it"));
  };
  for (mistake const& m : in_all_reduce) check(m, sum_up, "spoilt cannot do all_reduce among 3 ranks: step ");
  for (mistake const& m : in_gather) check(m, collect, "spoilt cannot do gather among 3 ranks: step ");
  check({"contributes a chunk that may be shorter than the one that it keeps",
         [](position me, int, step& t) {
           if (me.rank == 1) t.own = {space::output, {0}};
         }},
        collect_unevenly, "spoilt cannot do gather among 3 ranks: step 0 of rank 1");
  missing_steps = 3;
  std::string const text = refusal_of(run, sum_up);
  missing_steps = 0;
  CHECK_MESSAGE(contains(text, "spoilt cannot do all_reduce among 3 ranks: rank "), text);
  CHECK_MESSAGE(contains(text, " has -1 steps"), text);
}

}  // namespace own_steps
