// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks over MPI that are late, lost, duplicated, truncated, or addressed to another rank.
// ranks: 3
// labels: waits
#include "fault/mishaps.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

static_assert(sends_outside_calls<faulty<mpi>>);

TEST_CASE("messages between two ranks that are late arrive, and others are errors of all over MPI") {
  auto const fortunes = message_fortunes(
      {mishap::none, mishap::delay, mishap::cut, mishap::mistake, mishap::repeat, mishap::lose, mishap::mute});
  for (misfortune const& f : fortunes) {
    auto const make = [&](MPI_Comm part) {
      misfortune const mine = world().rank() == unlucky ? f : misfortune{};
      return communicator<faulty<mpi>>(
          std::make_unique<faulty<mpi>>(mine, part, all_tracks, std::chrono::nanoseconds(std::chrono::seconds(20))));
    };
    CHECK(on_ranks(world().size(), make, [&](auto& comm) { check_message_mishap(world(), comm, f); }) == "");
  }
}
