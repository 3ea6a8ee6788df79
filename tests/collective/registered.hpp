// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every registered algorithm over one transport: awkward numbers of ranks and elements, all protocols, any root, in and
// out of place, private and shared memory.
#pragma once

#include <set>
#include <vector>

#include "support/conformance.hpp"
#include "support/sanitized.hpp"

namespace tutti::testing {

// A few ranks are enough to find races.
inline std::vector<int> rank_counts() {
  if (sanitized) return {1, 2, 3};
  return {1, 2, 3, 4, 5, 7, 8, 13, 16};
}
// Elements of many slices, also in the shares of many ranks.
inline std::size_t large_count(int ranks) { return std::size_t{1} << (sanitized ? 17 : ranks > 4 ? 18 : 20); }

inline std::set<std::size_t> awkward_counts(int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  if (sanitized) return {0, 1, p + 1, 1000, 4099};
  return {0, 1, p - 1, p, p + 1, 1000, 4099};
}

inline std::set<int> some_roots(collective c, int ranks) {
  if (!rooted(c)) return {0};
  if (sanitized) return {0, ranks - 1};
  return {0, 1 % ranks, ranks / 2, ranks - 1};
}

// Runs everything that is registered, with so many elements.
template <class Comm>
void check_everything_registered(Comm& comm, std::set<std::size_t> const& counts) {
  conformance<Comm> check(comm);
  int trials = 0;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    for (std::size_t const count : counts)
      for (int const root : some_roots(c, comm.size()))
        for (protocol const how : {protocol::packet, protocol::staged, protocol::direct, protocol::pull})
          for (bool const in_place : {false, true}) {
            // Many ranks take turns, because the time of a call grows with their square on few cores.
            if ((sanitized || comm.size() > 8) && in_place != ((count + static_cast<std::size_t>(root)) % 2 == 0))
              continue;
            if (!possible(comm, s, c, id, how, count * sizeof(affine))) continue;
            trial const t{.options = {.algorithm = id, .protocol = how},
                          .count = count,
                          .root = root,
                          .in_place = in_place,
                          .shared = ++trials % 2 == 0};
            if (s.needs_commutative) check.template check<float>(c, t, sum{});
            else check.template check<affine>(c, t, compose{});
            if (!s.ragged || how == protocol::packet) continue;
            if (s.needs_commutative) check.template check_ragged<float>(c, t, sum{});
            else check.template check_ragged<affine>(c, t, compose{});
          }
  });
}

template <class Comm>
void check_everything_registered(Comm& comm) {
  check_everything_registered(comm, awkward_counts(comm.size()));
}

// The shortest message that is written with streaming stores, and some more elements.
inline constexpr std::size_t streamed_count = detail::streamed_output(true) / sizeof(float) + 1001;

// Messages of many slices, the same everywhere.
template <class Comm>
void check_large_messages(Comm& comm, std::size_t all) {
  conformance<Comm> check(comm);
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    // Blocks are a rank's share, so all messages have the same size.
    std::size_t const count = all / (by_block(c) ? static_cast<std::size_t>(comm.size()) : 1);
    for (protocol const how : {protocol::staged, protocol::direct, protocol::pull})
      if (c != collective::barrier && possible(comm, s, c, id, how, count * sizeof(float)))
        check.template check<float>(c,
                                    {.options = {.algorithm = id, .protocol = how},
                                     .count = count,
                                     .root = comm.size() / 2,
                                     .in_place = how != protocol::direct,
                                     .shared = how == protocol::direct},
                                    sum{});
  });
}

}  // namespace tutti::testing
