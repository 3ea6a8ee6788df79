// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups over one transport: who is in them and where, every collective on them, and that they do not disturb each other
// or the communicator that they come from. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

namespace tutti::testing {

// The group has these ranks of the outer communicator, in this order, and can talk.
template <class Comm>
void expect_members(Comm& group, int outer_rank, std::vector<int> const& members) {
  expect(group.size() == static_cast<int>(members.size()), "a group has the wrong size");
  expect(members[static_cast<std::size_t>(group.rank())] == outer_rank, "a rank is in the wrong place");
  std::vector<int> got(members.size());
  all_gather(group, std::span(&outer_rank, 1), got);
  expect(got == members, "a group has other members");
}

template <class Comm>
void check_all_collectives(Comm& comm) {
  conformance<Comm> check(comm);
  for (collective const c : every_collective)
    for (std::size_t const count : {0u, 7u, 5000u})
      for (bool const shared : {false, true}) {
        trial const t{.count = count, .root = comm.size() - 1, .in_place = shared, .shared = shared};
        check.template check<affine>(c, t, compose{});
        check.template check<float>(c, t, sum{});
        check.template check_ragged<float>(c, t, sum{});
      }
}

template <class Comm>
void check_splits(Comm& comm) {
  int const rank = comm.rank(), size = comm.size();
  auto const every = [&](int step, int first) {
    std::vector<int> out;
    for (int r = first; r < size; r += step) out.push_back(r);
    return out;
  };
  for (int const colors : {1, 2, 3, 8}) {
    auto part = comm.split(rank % colors).value();
    expect_members(part, rank, every(colors, rank % colors));
    check_all_collectives(part);
  }
  std::vector<int> backwards = every(1, 0);
  std::ranges::reverse(backwards);
  auto mirror = comm.split(7, -rank).value();
  expect_members(mirror, rank, backwards);

  for (int const outside : {no_color, -32766}) {
    auto even = comm.split(rank % 2 == 0 ? 5 : outside);
    expect(even.has_value() == (rank % 2 == 0), "a rank without a color is in a group, or one with a color in none");
    if (even) expect_members(*even, rank, every(2, 0));
  }

  // A split of a split of a split, whose outer ones are gone.
  auto quarter = comm.split(rank % 2).value().split(rank / 2 % 2).value().split(0).value();
  expect_members(quarter, rank, every(4, rank % 4));
  check_all_collectives(quarter);
}

template <class Comm>
void check_subgroups(Comm& comm) {
  int const rank = comm.rank(), size = comm.size();
  // Of every size, by the members alone, in an order that is not theirs.
  for (int n = 1; n <= size; ++n) {
    std::vector<int> members;
    for (int i = 0; i < n; ++i) members.push_back((size - 1 + i * (size - 1)) % size);
    if (std::ranges::find(members, rank) == members.end()) continue;
    auto group = comm.subgroup(members);
    expect_members(group, rank, members);
    check_all_collectives(group);
  }

  // Of any range of integers.
  auto odd = std::views::iota(std::size_t{0}, static_cast<std::size_t>(size)) |
             std::views::filter([](std::size_t r) { return r % 2 == 1; });
  if (rank % 2 == 1) {
    auto group = comm.subgroup(odd);
    std::vector<int> members;
    for (int r = 1; r < size; r += 2) members.push_back(r);
    expect_members(group, rank, members);
  }

  // The same members again and again, used in another order than that of their making.
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Comm> same;
  for (int i = 0; i < 20; ++i) same.push_back(comm.subgroup(all));
  for (auto g = same.rbegin(); g != same.rend(); ++g) expect_members(*g, rank, all);
}

// Every rank shares a group with each of its two neighbours. Even ranks make and use the upper one first, odd ranks the
// lower one.
template <class Comm>
void check_overlapping_groups(Comm& comm) {
  int const rank = comm.rank(), size = comm.size();
  std::vector<int> lower_ends{rank, rank - 1};
  if (rank % 2 == 1) std::ranges::reverse(lower_ends);
  std::erase_if(lower_ends, [&](int low) { return low < 0 || low + 1 >= size; });
  std::map<int, Comm> pairs;
  for (int const low : lower_ends) pairs.emplace(low, comm.subgroup({low, low + 1}));
  for (int round = 0; round < 100; ++round) {
    for (int const low : lower_ends) {
      std::vector<int> sum{rank + round};
      all_reduce(pairs.at(low), sum);
      expect(sum[0] == 2 * (low + round) + 1, "neighbours have a wrong sum");
    }
    if (round % 10 == 0) {
      std::vector<int> one{1};
      all_reduce(comm, one);
      expect(one[0] == size, "all have a wrong sum");
    }
  }
}

// Many groups of any members in any order, each used when it is made and again when ten others have come.
template <class Comm>
void check_random_groups(Comm& comm, unsigned seed, int groups = 300) {
  struct known {
    Comm group;
    std::vector<int> members;
  };
  std::mt19937 random(seed);
  std::vector<int> ranks(static_cast<std::size_t>(comm.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::deque<std::optional<known>> latest;
  for (int i = 0; i < groups; ++i) {
    std::ranges::shuffle(ranks, random);
    auto const count = static_cast<std::ptrdiff_t>(1 + random() % ranks.size());
    std::vector<int> const members(ranks.begin(), ranks.begin() + count);
    latest.emplace_back();
    if (std::ranges::find(members, comm.rank()) != members.end()) {
      latest.back().emplace(comm.subgroup(members), members);
      expect_members(latest.back()->group, comm.rank(), members);
    }
    if (latest.size() < 10) continue;
    if (auto& oldest = latest.front()) expect_members(oldest->group, comm.rank(), oldest->members);
    latest.pop_front();
  }
}

// Ranks make calls that do not fit on `faulty`, and `sound` does not mind.
template <class Comm>
void check_apart(Comm& faulty, Comm& sound) {
  std::vector<int> v(static_cast<std::size_t>(faulty.rank() + 1));
  expect_error(error_of([&] { all_reduce(faulty, v); }), error_code::mismatch, "ranks disagree");
  std::vector<int> ones(1000, 1);
  all_reduce(sound, ones);
  expect(ones[999] == sound.size(), "a fault reached another communicator");
}

template <class Comm>
void check_independence(Comm& comm) {
  std::vector<int> all(static_cast<std::size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  auto sound = comm.subgroup(all);
  for (int round = 0; round < 5; ++round) {  // what was sent before a fault must not reach the next communicator
    auto faulty = comm.subgroup(all);
    check_apart(faulty, comm);
    barrier(sound);  // not of comm: who is still in it would get the fault that comes next
  }
  check_apart(comm, sound);
  // Those who want can go on without the communicator that has the fault.
  auto late = comm.subgroup(all);
  check_all_collectives(late);
  barrier(late);
  {
    Comm const closed = std::move(comm);
  }
  check_all_collectives(sound);
  barrier(sound);
}

// Errors of a group say which ranks it has, because they number them within it.
template <class Comm>
void check_numbering(Comm& comm) {
  auto const disagree = [](Comm& some) {
    std::vector<int> v(static_cast<std::size_t>(some.rank() + 1));
    return error_of([&] { all_reduce(some, v); });
  };
  if (comm.rank() != 1) {
    auto group = comm.subgroup({4, 3, 2, 0});
    if (group.rank() % 2 == 0) {
      auto part = group.subgroup({2, 0});
      expect_error(disagree(part), error_code::mismatch,
                   "; ranks are numbered within the group {2, 0} of the group {4, 3, 2, 0}");
    }
    expect_error(disagree(group), error_code::mismatch, "; ranks are numbered within the group {4, 3, 2, 0}");
  }
  auto same = comm.subgroup({0, 1, 2, 3, 4});
  for (Comm* const all : {&same, &comm}) expect(!contains(disagree(*all), "numbered"), "ranks have kept their numbers");
}

// Three ranks have two cores, so pairs of them may not wait as if each rank had one.
template <class Comm>
void check_crowded_groups(Comm& comm) {
  auto const is_crowded = [](Comm& some) { return some.engine().transport().crowded(); };
  expect(is_crowded(comm), "three ranks on two cores do not know it");
  auto pair = comm.split(comm.rank() == 2 ? 1 : 0).value();
  if (comm.rank() == 2) return;
  expect(is_crowded(pair), "two ranks take two cores for their own, which a third one uses");
  auto again = pair.split(0).value();
  expect(is_crowded(again), "a group of a group has lost sight of the third rank");
}

template <class Comm>
void check_refused_lists(Comm& comm) {
  int const other = comm.rank() == 0 ? 1 : 0;
  auto const said = [&](std::vector<int> const& list) {
    return error_of([&] { static_cast<void>(comm.subgroup(list)); });
  };
  auto const bad = error_code::bad_argument;
  expect_error(said({comm.rank(), 3}), bad, "the list of a group contains rank 3, but the communicator has only 3");
  expect_error(said({-1, comm.rank()}), bad, "list ranks from 0 to 2");
  expect_error(said({0, 1, 2, 1}), bad, "the list of a group contains rank 1 twice");
  std::vector<std::int64_t> const beyond{comm.rank(), (std::int64_t{1} << 32) + other};
  expect_error(error_of([&] { static_cast<void>(comm.subgroup(beyond)); }), bad, "list ranks from 0 to 2");
  expect_error(said({other}), bad, "creates a group whose list does not contain it: {" + std::to_string(other) + "}");
  expect_error(said({}), bad, "groups.hpp:");
  auto all = comm.subgroup({0, 1, 2});
  expect_members(all, comm.rank(), {0, 1, 2});
}

// With a short TUTTI_TIMEOUT: rank 1 of 3 does not come, and later does.
template <class Comm>
void check_late_member(Comm& comm) {
  auto const form = [&] { return comm.subgroup({2, 1, 0}); };
  if (comm.rank() != 1) {
    error const e = error_of(form);
    expect_error(e, error_code::timeout, "timed out waiting for rank");
    expect(e.happened().find("1") != std::string::npos, e.happened());  // and perhaps another that is late
    expect_error(e, error_code::timeout, "with the same ranks in the same order");
    expect_error(e, error_code::timeout, "groups.hpp:");
  }
  barrier(comm, {.timeout = std::chrono::seconds(60)});
  auto group = form();
  expect_members(group, comm.rank(), {2, 1, 0});
  barrier(comm);
}

// Rank 1 of 3 closes its communicator: the others learn at once that it will not come, and go on without it.
template <class Comm>
void check_leaving_member(Comm& comm) {
  if (comm.rank() == 1) {
    Comm const closed = std::move(comm);
    return;
  }
  for (auto const& list : {std::vector{0, 1, 2}, std::vector{1, 0, 2}, std::vector{2, 1, 0}}) {
    error const e = error_of([&] { static_cast<void>(comm.subgroup(list)); });
    expect_error(e, error_code::rank_lost, "rank 1 has ended or closed its communicator, so it cannot join");
    expect(e.peer() == 1, "the wrong rank is to blame");
  }
  auto rest = comm.subgroup({0, 2});
  check_all_collectives(rest);
  barrier(rest);
}

// Rank 1 of 3 passes a list that is refused, and the exception closes its communicator: the others learn why it does not come.
template <class Comm>
void check_refused_member(Comm& comm) {
  std::string const reason = "the list of a group contains rank 1 twice";
  if (comm.rank() == 1) {
    error const e = error_of([&] {
      Comm const closes_here = std::move(comm);
      static_cast<void>(closes_here.subgroup({1, 1}));
    });
    return expect_error(e, error_code::bad_argument, reason);
  }
  for (auto const& list : {std::vector{0, 1, 2}, std::vector{1, 0, 2}, std::vector{2, 1, 0}}) {
    error const e = error_of([&] { static_cast<void>(comm.subgroup(list)); });
    expect_error(e, error_code::rank_lost, "rank 1 has ended or closed its communicator, so it cannot join");
    expect_error(e, error_code::rank_lost, "a call of rank 1 was refused: " + reason);
    expect_error(e, error_code::rank_lost, "correct the call of that rank");
    expect(e.peer() == 1, "the wrong rank is to blame");
  }
  auto rest = comm.subgroup({0, 2});
  barrier(rest);
}

// With a short TUTTI_TIMEOUT: the other members catch that error, and do not try again until rank 0 has given up.
template <class Comm>
void check_refused_late_members(Comm& comm) {
  auto all = comm.split(0).value();
  for (auto const& list : {std::vector{0, 1}, std::vector{0, 1, 2}}) {
    if (comm.rank() == 0) {
      error const e = error_of([&] { return comm.subgroup(list); });
      expect_error(
          e, error_code::timeout,
          list.size() == 2 ? "timed out waiting for rank 1 to join; " : "timed out waiting for ranks 1, 2 to join; ");
      for (std::size_t r = 1; r < list.size(); ++r) {
        std::string const rank = std::to_string(r);
        expect_error(e, error_code::timeout,
                     "; a call of rank " + rank + " was refused: the list of a group contains rank " + rank + " twice");
      }
    } else if (comm.rank() < static_cast<int>(list.size())) {
      expect_error(error_of([&] { return comm.subgroup({comm.rank(), comm.rank()}); }), error_code::bad_argument,
                   "twice");
    }
    barrier(all, {.timeout = std::chrono::seconds(60)});
  }
  auto group = comm.split(0).value();
  expect_members(group, comm.rank(), {0, 1, 2});
  barrier(comm);
}

template <class Comm>
void check_meshes(Comm& comm) {
  int const rank = comm.rank();
  auto const in = [&](mesh<std::remove_cvref_t<decltype(comm.engine().transport())>>& m,
                      std::initializer_list<std::string_view> axes) {
    return [&m, axes, rank](std::vector<int> const& members) { expect_members(m.along(axes), rank, members); };
  };
  if (comm.size() == 8) {
    mesh m(comm, {{"data", 2}, {"tensor", -1}, {"pipeline", 2}});
    int const d = rank / 4, t = rank / 2 % 2, p = rank % 2;
    expect(m.coordinate("data") == d && m.coordinate("tensor") == t && m.coordinate("pipeline") == p,
           "wrong coordinates");
    expect(m.extent("tensor") == 2 && m.axes().size() == 3, "wrong extents");
    in(m, {"data"})({rank % 4, rank % 4 + 4});
    in(m, {"tensor"})({4 * d + p, 4 * d + 2 + p});
    in(m, {"pipeline"})({rank - p, rank - p + 1});
    in(m, {"data", "tensor"})({p, 2 + p, 4 + p, 6 + p});
    in(m, {"pipeline", "data"})({2 * t, 2 * t + 1, 2 * t + 4, 2 * t + 5});
    in(m, {"tensor", "pipeline"})({4 * d, 4 * d + 1, 4 * d + 2, 4 * d + 3});
    in(m, {"pipeline", "tensor", "data"})({0, 1, 2, 3, 4, 5, 6, 7});
    expect(&m.along({"data", "tensor"}) == &m.along({"tensor", "data"}), "one group was made twice");
    expect(m.along("data").rank() == d, "a rank is not its coordinate");
    expect(m.rank_at({d, t, p}) == rank && m.rank_at({1 - d, p, t}) == 4 * (1 - d) + 2 * p + t, "wrong ranks");
    expect(m.shift("tensor", 1) == (t == 0 ? rank + 2 : no_rank) && m.shift("tensor", 0) == rank, "a wrong neighbour");
    expect(m.shift("data", -1) == (d == 1 ? rank - 4 : no_rank), "a wrong neighbour");
    expect(m.shift("pipeline", -7, {.periodic = true}) == (p == 0 ? rank + 1 : rank - 1), "a wrong periodic neighbour");
    for (auto* group : {&m.along("data"), &m.along("tensor"), &m.along({"data", "pipeline"})})
      check_all_collectives(*group);
  }
  mesh line(comm, {{"all", -1}, {"one", 1}});
  expect(line.coordinate("all") == rank && line.coordinate("one") == 0, "wrong coordinates on a line");
  expect(line.shift("all", std::numeric_limits<int>::max()) == no_rank, "a neighbour beyond the end");
  expect(line.shift("all", comm.size() + 1, {.periodic = true}) == (rank + 1) % comm.size(), "wrong on a ring");
  expect(line.along("all").size() == comm.size() && line.along("one").size() == 1, "wrong sizes on a line");
  check_all_collectives(line.along("all"));
}

// Rank 3 of 4 leaves the mesh because of an error that rank 0, which has no axis with it, does not see.
template <class Comm>
void check_revoked_mesh(Comm& comm) {
  tutti::mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
  if (comm.rank() == 3) {
    mesh.revoke(error({.code = error_code::rank_lost, .rank = 3, .what = "a rank is gone"}));
  } else {
    error const e = error_of([&] {
      try {
        barrier(mesh.along(comm.rank() == 1 ? "data" : "tensor"));
      } catch (error const& found) {
        mesh.revoke(found);
        throw;
      }
    });
    expect_error(e, error_code::revoked, "has revoked the communicator: an error of another call on the mesh: ");
    expect_error(e, error_code::revoked, "a rank is gone");
  }
  barrier(comm);
}

template <class Comm>
void check_refused_meshes(Comm& comm) {
  auto const said = [&](std::vector<mesh_axis> const& axes) { return error_of([&] { mesh(comm, axes); }); };
  auto const bad = error_code::bad_argument;
  expect_error(said({{"a", 2}, {"b", 2}}), bad, "a mesh of a 2, b 2 does not fit 6 ranks");
  expect_error(said({{"a", 4}, {"b", -1}}), bad, "a mesh of a 4, b -1 does not fit 6 ranks");
  expect_error(said({{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}}), bad, "does not fit 6 ranks");
  expect_error(said({}), bad, "a mesh of no axes does not fit 6 ranks");
  expect_error(said({{"a", 5}}), bad, "the product of the extents must be the number of ranks");
  expect_error(said({{"a", -1}, {"b", -1}}), bad, "axis \"b\" of a mesh has extent -1");
  expect_error(said({{"a", 0}, {"b", -1}}), bad, "axis \"a\" of a mesh has extent 0");
  expect_error(said({{"a", 2}, {"a", 3}}), bad, "two axes \"a\"");
  expect_error(said({{comm.rank() == 4 ? "b" : "a", 6}}), error_code::mismatch,
               "rank 4 creates a mesh whose axes differ");
  std::string const reason = error_of([&] {
                               auto group = comm.split(0).value();
                               if (comm.rank() == 4) mesh(group, {{"a", 0}});
                               barrier(group);
                             }).what();
  expect(reason.find("axis \"a\" of a mesh has extent 0") != std::string::npos, reason);
  mesh m(comm, {{"a", 2}, {"b", 3}});
  expect_error(error_of([&] { m.along({"a", "c"}); }), bad, "a mesh of a 2, b 3 has no axis \"c\"");
  for (std::vector<int> const& beyond : {std::vector{2, 0}, {0, -1}, {1}, {0, std::numeric_limits<int>::max()}})
    expect_error(error_of([&] { static_cast<void>(m.rank_at(beyond)); }), bad, "there is no rank at {");
  expect_error(error_of([&] { m.coordinate("d"); }), bad, "groups.hpp:");
  expect_members(m.along("b"), comm.rank(), comm.rank() < 3 ? std::vector{0, 1, 2} : std::vector{3, 4, 5});
}

}  // namespace tutti::testing
