// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of a machine meet when MPI is initialised, with the help of the MPI.
#include "machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "tutti/core/random.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"

namespace interpose {
namespace {

// The deadline for ranks that are known to have begun the same meeting.
tutti::detail::countdown meetings_end() {
  return tutti::detail::countdown(std::min<std::chrono::nanoseconds>(longest_wait(), std::chrono::minutes(1)));
}

// Whether no rank has a problem. Of those that have one, the lowest prints it.
bool none_failed(std::string const& problem) {
  int rank = 0, size = 0, first = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  int const mine = problem.empty() ? size : rank;
  PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == rank) std::fprintf(stderr, "%s; all collectives are passed to the MPI\n", problem.c_str());
  return first == size;
}

std::vector<int> world_ranks(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(group, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), out(own);
  for (int r = 0; r < size; ++r) own[static_cast<std::size_t>(r)] = r;
  PMPI_Group_translate_ranks(group, size, own.data(), world, out.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  return out;
}

template <class T>
T from_first(T value, MPI_Comm comm) {
  PMPI_Bcast(&value, sizeof value, MPI_BYTE, 0, comm);
  return value;
}

}  // namespace

std::unique_ptr<machine> machine::join_by_all(void (*meanwhile)() noexcept) {
  MPI_Comm here = MPI_COMM_NULL;
  int world_rank = 0, rank = 0, ranks = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &here);
  PMPI_Comm_rank(here, &rank);
  PMPI_Comm_size(here, &ranks);
  std::unique_ptr<machine> out(new machine(here, meanwhile));
  std::uint64_t const job = from_first(tutti::detail::random_number(), here);
  std::string problem;
  try {
    out->all_.emplace(out->join(rank, ranks, job));
  } catch (std::exception const& e) {
    problem = e.what();
  }
  groups::address directory = 0;
  bool const joined = none_failed(problem);
  if (joined && ranks > 1 && rank == 0) {
    try {
      directory = groups::make_directory(out->all_->engine().transport());
    } catch (std::exception const&) {
      problem = "tutti: there is no shared memory for communicators (TUTTI_HEAP)";
    }
  }
  directory = from_first(directory, here);
  PMPI_Comm_free(&here);
  if (!joined || !none_failed(problem)) return {};
  out->groups_.emplace(out->all_->engine().transport(), directory);
  return out;
}

machine::machine(MPI_Comm here, void (*meanwhile)() noexcept) : meanwhile_(meanwhile) {
  int size = 0, place = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank_);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  PMPI_Comm_rank(here, &place);
  int const first = from_first(world_rank_, here);
  machines_.resize(static_cast<std::size_t>(size));
  places_.resize(static_cast<std::size_t>(size));
  PMPI_Allgather(&first, 1, MPI_INT, machines_.data(), 1, MPI_INT, MPI_COMM_WORLD);
  PMPI_Allgather(&place, 1, MPI_INT, places_.data(), 1, MPI_INT, MPI_COMM_WORLD);
}

communicator machine::join(int rank, int ranks, std::uint64_t job) const {
  if (ranks == 1) return while_the_mpi_works(std::make_unique<room_shm>());
  auto until = meetings_end();
  tutti::detail::rendezvous meeting("mpi-" + std::to_string(job), rank, ranks, until);
  tutti::detail::descriptor const file =
      meeting.meet([&] { return room_shm::create(ranks, tutti::detail::all_tracks); });
  communicator out = while_the_mpi_works(
      std::make_unique<room_shm>(file, rank, ranks, tutti::detail::all_tracks, until, meeting.take_watches()));
  tutti::detail::agree_on_tuning(out.engine());
  return out;
}

communicator machine::while_the_mpi_works(std::unique_ptr<room_shm> transport) const {
  communicator out(std::move(transport));
  out.engine().transport().while_waiting(meanwhile_);
  return out;
}

std::vector<int> machine::places_of(MPI_Comm comm) const {
  std::vector<int> out = world_ranks(comm);
  int const here = machines_[static_cast<std::size_t>(world_rank_)];
  for (int& rank : out) {
    if (rank == MPI_UNDEFINED || machines_[static_cast<std::size_t>(rank)] != here) return {};
    rank = places_[static_cast<std::size_t>(rank)];
  }
  return out;
}

communicator machine::enter(groups::membership const& group, std::vector<int> const& members) {
  communicator out = while_the_mpi_works(members.size() == 1 ? std::make_unique<room_shm>() : group.enter(members));
  out.engine().tuned = all_->engine().tuned;
  return out;
}

}  // namespace interpose
