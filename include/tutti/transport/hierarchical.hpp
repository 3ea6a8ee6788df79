// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on one machine or many: messages go over MPI, and there are two transports more, for collectives in two levels:
// shared memory for the ranks of each node, and MPI for ranks that stand for their nodes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mpi.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi.hpp"
#include "tutti/transport/nodes.hpp"
#include "tutti/transport/rendezvous.hpp"
#include "tutti/transport/shm.hpp"

namespace tutti {

class hierarchical : public mpi {
 public:
  static constexpr std::string_view name = "hierarchical";
  using inside = shm;
  using across = mpi;

  // Nodes are what MPI_COMM_TYPE_SHARED says, or the ranks that pass the same number.
  static constexpr int by_machine = -1;

  // As mpi's.
  [[gnu::cold]] hierarchical(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit, int node = by_machine)
      : mpi(ranks, tracks, limit), tracks_(tracks), limit_(limit), nodes_(find_nodes(communicator(), node)) {
    int const local = nodes_.local_rank(rank());
    // All have just met, so none waits long in what follows.
    inside_ = meet_inside(deadline::after(limit));
    shared_ = inside_.get();
    if (nodes_.count() == 1) return;
    MPI_Comm alike = MPI_COMM_NULL;
    bool const stands = nodes_.even() || local == 0;
    expect_success(MPI_Comm_split(communicator(), stands ? local : MPI_UNDEFINED, nodes_.node_of(rank()), &alike),
                   "MPI_Comm_split");
    if (!stands) return;
    across_ = std::make_unique<mpi>(alike, tracks, limit);
    MPI_Comm_free(&alike);
  }

  node_map const& nodes() const noexcept { return nodes_; }
  // The ranks of this node, by their local ranks.
  std::unique_ptr<shm> take_inside() noexcept { return std::move(inside_); }
  // The ranks with this local rank, by their nodes; where nodes are uneven, for those with local rank 0 alone.
  std::unique_ptr<mpi> take_across() noexcept { return std::move(across_); }

  // Memory that the ranks of this node can read in place.
  std::byte* allocate(std::size_t bytes) { return shared_->allocate(bytes); }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept { shared_->deallocate(memory, bytes); }

  // The levels are closed before this is.
  void leave() noexcept { leave_at_once(); }

  // As mpi's; nodes stay what they are.
  [[gnu::cold]] std::unique_ptr<hierarchical> subgroup(std::vector<int> const& members, deadline until) {
    auto const flat = mpi::subgroup(members, until);
    return std::make_unique<hierarchical>(flat->communicator(), tracks_, limit_, nodes_.node_of(rank()));
  }

 private:
  [[gnu::cold]] static node_map find_nodes(MPI_Comm ranks, int node) {
    int rank = 0, size = 0;
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    if (node == by_machine) {
      MPI_Comm machine = MPI_COMM_NULL;
      expect_success(MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
                     "MPI_Comm_split_type");
      node = rank;
      int const code = MPI_Bcast(&node, 1, MPI_INT, 0, machine);
      MPI_Comm_free(&machine);
      expect_success(code, "MPI_Bcast");
    }
    std::vector<int> keys(static_cast<std::size_t>(size));
    expect_success(MPI_Allgather(&node, 1, MPI_INT, keys.data(), 1, MPI_INT, ranks), "MPI_Allgather");
    return node_map(keys);
  }

  // The name under which the ranks of a node meet is made by the first of them.
  [[gnu::cold]] std::unique_ptr<shm> meet_inside(deadline until) const {
    int const node = nodes_.node_of(rank()), local = nodes_.local_rank(rank()), size = nodes_.size(node);
    static std::atomic<int> meetings{0};
    int meeting_id[] = {static_cast<int>(::getpid()), meetings++};
    MPI_Comm here = MPI_COMM_NULL;
    expect_success(MPI_Comm_split(communicator(), node, local, &here), "MPI_Comm_split");
    int const code = MPI_Bcast(meeting_id, 2, MPI_INT, 0, here);
    MPI_Comm_free(&here);
    expect_success(code, "MPI_Bcast");
    if (size == 1) return std::make_unique<shm>();
    acquaintance const others{nodes_.members(node), {}, "see why the ranks of one machine cannot meet on it"};
    rendezvous meeting(join({"node-", meeting_id[0], "-", meeting_id[1]}), local, size, until, others);
    descriptor const file = meeting.meet([&] { return shm::create(size, tracks_); });
    return std::make_unique<shm>(file, local, size, tracks_, until);
  }

  int tracks_;
  std::chrono::nanoseconds limit_;
  node_map nodes_;
  std::unique_ptr<shm> inside_;
  std::unique_ptr<mpi> across_;
  shm* shared_ = nullptr;  // inside_, wherever it is
};

static_assert(divisible<hierarchical> && has_levels<hierarchical>);

}  // namespace tutti
