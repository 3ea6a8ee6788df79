// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of one MPI job are killed one after another at random moments until two or three survive, which finish it: over
// MPI, or with an odd seed (TUTTI_TEST_SEED) over nodes of two ranks. For an MPI with fault tolerance; if only the
// launcher continues (TUTTI_TEST_RECOVERY), one rank is killed, and all are on one node. kills.sh repeats it.
// ranks: 6
// ulfm: kills.sh
// recovery: kills.sh
// timeout: 300
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "fault/losses.hpp"
#include "support/expect.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

bool recovers() { return std::getenv("TUTTI_TEST_RECOVERY") != nullptr; }

template <class Comm>
int lose_most(Comm comm, unsigned seed) {
  std::mt19937 random(seed);
  // An MPI without fault tolerance may wait for ever for a rank that dies while the others shrink or create a group, so
  // one rank is killed elsewhere.
  int const least = recovers() ? comm.size() - 1 : 3;
  std::optional<Comm> idle;  // learns of the loss only when it closes
  if (recovers()) idle.emplace(comm.split(0).value());
  while (comm.size() > least) {
    script s = any_script(random, comm.size());
    // Open MPI 5.0.7 never returns from MPI_Comm_create_group if a rank dies in it.
    if (s.what == habit::groups) s.what = habit::calls;
    if (s.what == habit::shrinks && recovers()) {
      s.what = habit::calls;
      s.victims.pop_back();
    }
    comm = finish_with_losses(comm, s);
    if (comm.is_main()) std::printf("seed %u: a kill %s\n", seed, habits[static_cast<std::size_t>(s.what)]);
  }
  auto const closing = deadline::clock::now();
  idle.reset();
  expect(deadline::clock::now() - closing < comm.engine().environment.timeout / 2,
         "closing waits for the rank that was lost");
  return comm.size();
}

}  // namespace

TEST_CASE("whenever ranks of an MPI job are killed, the others learn who, shrink and finish it") {
  start_mpi();
  bool const on = mpi_survives();
  CHECK((std::getenv("TUTTI_TEST_ULFM") == nullptr || on));
  if (!on && !recovers()) {
    std::puts("this MPI has no ULFM, or it is off: no rank is killed");
    return;
  }
  char const* const said = std::getenv("TUTTI_TEST_SEED");
  auto const seed = static_cast<unsigned>(said != nullptr ? std::atoi(said) : 0);
  std::string thrown;
  int left = 0;
  try {
    if (recovers()) {
      left = lose_most(from_mpi<hierarchical>(), seed);
    } else if (seed % 2 == 0) {
      left = lose_most(from_mpi(), seed);
    } else {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      left = lose_most(communicator<hierarchical>(std::make_unique<hierarchical>(
                           MPI_COMM_WORLD, all_tracks, settings::from_environment().timeout, rank / 2)),
                       seed);
    }
  } catch (std::exception const& e) {
    thrown = e.what();
  }
  CHECK(thrown == "");
  if (thrown.empty()) std::printf("one of %d survivors has finished\n", left);
}
