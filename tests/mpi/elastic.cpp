// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training over MPI and over nodes. With fault tolerance of the MPI (TUTTI_TEST_ULFM), or on one node if the launcher
// continues when a rank has died (TUTTI_TEST_RECOVERY), one of the ranks is killed at a place of a step that the seed decides, and the
// others end with the weights of a run without losses.
// ranks: 4
// ulfm: kills.sh
// recovery: kills.sh
#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "training/elastic/toy.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::uint64_t steps_over_mpi = 20;

// Returns how many ranks have finished.
template <class Comm>
int train_over_mpi(Comm comm, int victim, std::uint64_t last, toy_training::place where) {
  bool const dies = comm.rank() == victim;
  toy_training toy;
  training::elastic_loop loop(std::move(comm));
  loop.run(
      steps_over_mpi, [&](auto& its) { return toy.arrays(its); },
      [&](auto& its, std::uint64_t number) {
        toy.step(its, number, [&](toy_training::place at) {
          if (dies && number == last && at == where) ::raise(SIGKILL);
        });
      });
  CHECK(loop.step() == steps_over_mpi);
  CHECK(toy.hash() == toy_training::hash_after(steps_over_mpi));
  return loop.comm().size();
}

}  // namespace

TEST_CASE(
    "elastic training over MPI ends with the weights of one rank, and goes on when a rank is lost if the MPI allows "
    "it") {
  bool const survives = std::getenv("TUTTI_TEST_ULFM") != nullptr,
             recovers = survives || std::getenv("TUTTI_TEST_RECOVERY") != nullptr;
  char const* const said = std::getenv("TUTTI_TEST_SEED");
  unsigned const seed = said != nullptr ? static_cast<unsigned>(std::atoi(said)) : 0;
  std::string thrown;
  int left = 0;
  try {
    if (recovers) {
      auto const lose_one = [&](auto comm) {
        return train_over_mpi(std::move(comm), static_cast<int>(seed % 4), 1 + seed * 7 % steps_over_mpi,
                              static_cast<toy_training::place>(seed % 3));
      };
      detail::start_mpi();
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (!survives) left = lose_one(from_mpi<hierarchical>());
      else if (seed / 4 % 2 == 0) left = lose_one(from_mpi());
      else
        left = lose_one(communicator<hierarchical>(std::make_unique<hierarchical>(
            MPI_COMM_WORLD, detail::all_tracks, detail::settings::from_environment().timeout, rank / 2)));
      CHECK(left == 3);
    } else {
      CHECK(train_over_mpi(from_mpi(), -1, 0, {}) == 4);
      CHECK(train_over_mpi(from_mpi<hierarchical>(), -1, 0, {}) == 4);
    }
  } catch (std::exception const& e) {
    thrown = e.what();
  }
  CHECK(thrown == "");
  if (recovers && thrown.empty()) std::printf("one of %d survivors has finished\n", left);
}
