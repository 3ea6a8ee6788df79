// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// No step of the library's algorithms has a flaw that calls by a program's own algorithm refuse.
#include <doctest/doctest.h>

#include "tutti/algorithm/registry.hpp"
#include "tutti/algorithm/step_flaws.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("no step of the registry has a flaw") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule const& schedule) {
    for (int ranks = 2; ranks <= 17; ++ranks)
      for (int const root : {0, ranks - 1})
        for (bool const ordered : {false, true}) {
          if (ordered && schedule.needs_commutative) continue;
          shape const s{ranks, root, ordered};
          int const chunk_count = by_block(c) ? ranks : schedule.chunks(s), phases = schedule.phases(s);
          for (int rank = 0; rank < ranks; ++rank)
            for (int track = 0; track < schedule.lanes(s) * phases; ++track) {
              position const me{rank, track / phases, track % phases};
              for (int i = 0; i < schedule.steps(s, me); ++i) {
                step const t = schedule.at(s, me, i);
                char const* flaw = flaw_in_chunks(t, chunk_count);
                if (flaw == nullptr) flaw = flaw_in_step(t, rank, s, schedule.pipelined);
                bool const ragged = by_block(c) && schedule.ragged;
                if (flaw == nullptr) flaw = flaw_in_memory(t, c, rank, s, chunk_count, schedule.scratch, ragged);
                if (flaw != nullptr)
                  FAIL_CHECK(name(id), " ", name(c), " ", ranks, " rank ", rank, " step ", i, ": ", flaw);
              }
            }
        }
  });
}

TEST_CASE("an own block in an all_to_all with uneven blocks is the rank's own in both arrays") {
  shape const s{3};
  auto const flaw = [&](int own, int kept, bool ragged) {
    step const t{.from = one(1), .own = {space::input, {own}}, .keep = {space::output, {kept}, true}};
    return flaw_in_memory(t, collective::all_to_all, 1, s, 3, false, ragged);
  };
  CHECK(flaw(1, 1, true) == nullptr);
  CHECK(flaw(1, 2, true) != nullptr);
  CHECK(flaw(2, 2, true) != nullptr);
  CHECK(flaw(2, 1, false) == nullptr);
}
