// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of MPI_COMM_WORLD that share this machine: their communicator, and groups of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <optional>
#include <vector>

#include "collectives.hpp"
#include "groups.hpp"

namespace interpose {

class machine {
 public:
  // Called by all ranks of the job. Returns nothing, on all of them alike, if the memory of one machine could not be
  // created, which one rank prints. `meanwhile` is called by ranks that wait.
  static std::unique_ptr<machine> join_by_all(void (*meanwhile)() noexcept);

  communicator& ranks() { return *all_; }
  // The ranks of an MPI communicator as ranks of this machine; none if one is on another machine or of another job.
  std::vector<int> places_of(MPI_Comm comm) const;

  // Members of the group must have left it before this machine is left.
  groups::membership join(std::uint64_t identity, std::vector<int> const& members) {
    return groups_->join(identity, members);
  }
  // The communicator of a group that was joined, or of this rank alone.
  communicator enter(groups::membership const& group, std::vector<int> const& members);

  bool is_first_notice() { return groups_->is_first_notice(); }
  bool is_first_report(int kind) { return !groups_ || groups_->is_first_report(kind); }

  // A number that no rank of this job gets a second time.
  std::uint64_t new_number() { return static_cast<std::uint64_t>(world_rank_) << 40 | ++numbers_; }

 private:
  // Finds out where all ranks are.
  machine(MPI_Comm here, void (*meanwhile)() noexcept);
  communicator join(int rank, int ranks, std::uint64_t job) const;
  communicator while_the_mpi_works(std::unique_ptr<room_shm> transport) const;

  void (*meanwhile_)() noexcept;
  int world_rank_ = 0;
  std::vector<int> machines_;  // of each rank of MPI_COMM_WORLD: the lowest rank on its machine
  std::vector<int> places_;    // and its rank on that machine
  std::optional<communicator> all_;
  std::optional<groups> groups_;
  std::atomic<std::uint64_t> numbers_{0};
};

}  // namespace interpose
