// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over nodes: MPI among all ranks and, for collectives in two levels, shared memory within each node and
// MPI among the ranks that represent their nodes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mpi.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi/mpi.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/system/caches.hpp"
#include "tutti/transport/system/uncaught.hpp"

namespace tutti {

class hierarchical : public mpi {
 public:
  static constexpr std::string_view name = "hierarchical";
  using inside = shm;
  using across = mpi;

  // A node is the ranks that share memory by MPI_COMM_TYPE_SHARED, or those that pass the same number: all ranks pass
  // one, or none.
  static constexpr int by_machine = -1;

  // Like the constructor of mpi.
  [[gnu::cold]] hierarchical(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit, int node = by_machine)
      : hierarchical(detail::mpi_communicator(ranks, detail::countdown(limit)), tracks, limit, {}, node,
                     [&](detail::countdown& until) { return meet_inside(until); }) {}

  detail::node_map const& nodes() const noexcept { return nodes_; }
  std::vector<detail::location> const& locations() const noexcept { return locations_; }
  // The transport of this node; its ranks are local ranks.
  std::unique_ptr<shm> take_inside() noexcept { return std::move(inside_); }
  // The transport of all ranks with the same local rank, one per node. Uneven nodes have only that of local rank 0.
  std::unique_ptr<mpi> take_across() noexcept { return std::move(across_); }

  // Memory that the ranks of this node can read in place.
  std::byte* allocate(std::size_t bytes) { return shared_->allocate(bytes); }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept { shared_->deallocate(memory, bytes); }
  bool owns_allocations() const noexcept { return shared_->owns_allocations(); }
  static void deallocate_alone(std::byte* memory) noexcept { shm::deallocate_alone(memory); }

  // An MPI without fault tolerance does not tell of ranks that have ended. The shared memory of a node does.
  bool lost(int peer) const noexcept { return mpi::lost(peer) || (!detail::mpi_survives() && has_ended_here(peer)); }

  // Tells peers at once, because both levels are closed before this transport. It waits for none that has ended, which the
  // MPI may not have noticed.
  void leave() noexcept {
    for (int const m : nodes_.members(nodes_.node_of(rank())))
      if (has_ended_here(m)) board_.note_lost(m);
    leave_at_once();
  }

  // Like mpi::subgroup; ranks keep their nodes.
  [[gnu::cold]] std::unique_ptr<hierarchical> subgroup(std::vector<int> const& members, detail::countdown& until) {
    expect_thread();
    return name_lost_rank_in([&] { return on_nodes(members, meet_members(members, until), true, until); });
  }
  [[gnu::cold]] std::unique_ptr<hierarchical> shrink(std::vector<int> const& members, bool others_live,
                                                     detail::countdown& until) {
    return on_nodes(members, meet_survivors(members, others_live), others_live, until);
  }

 private:
  // Whether the process of another rank of this node has ended, and not because the rank has left.
  bool has_ended_here(int peer) const noexcept {
    if (peer == rank() || nodes_.node_of(peer) != nodes_.node_of(rank())) return false;
    int const local = nodes_.local_rank(peer);
    return shared_->lost(local) && !shared_->left(local);
  }

  // A transport of the members on their communicator `theirs`.
  [[gnu::cold]] std::unique_ptr<hierarchical> on_nodes(std::vector<int> const& members, detail::mpi_communicator theirs,
                                                       bool others_live, detail::countdown& until) {
    int const node = nodes_.node_of(rank());
    std::vector<int> here;
    for (int const m : members)
      if (nodes_.node_of(m) == node) here.push_back(nodes_.local_rank(m));
    auto const meet = [&](detail::countdown&) { return shared_->subgroup(here, until, others_live); };
    return std::unique_ptr<hierarchical>(
        new hierarchical(std::move(theirs), tracks_, limit_, machine_.neighbours, node, meet));
  }

  template <class Meet>
  [[gnu::cold]] hierarchical(detail::mpi_communicator own, int tracks, std::chrono::nanoseconds limit,
                             std::vector<detail::mpi_neighbour> const& known, int node, Meet&& meet)
      : mpi(std::move(own), tracks, limit, known), locations_(locate(node)), nodes_(nodes_of(locations_)) {
    make_together([&](detail::countdown& until) { inside_ = meet(until); });
    shared_ = inside_.get();
    connect();
  }

  // Calls make(deadline) on all ranks. If it throws on some, all ranks throw the error of the lowest of them, so that
  // none waits for a rank that has given up.
  template <class Make>
  [[gnu::cold]] void make_together(Make&& make) {
    together(MPI_COMM_NULL, [&] { make_and_compare(make); });
  }
  template <class Make>
  [[gnu::cold]] void make_and_compare(Make&& make) const {
    struct failure {
      int rank = 0;
      error_code code{};
      char text[1016]{};
    };
    auto mine = std::make_unique<failure>(), first = std::make_unique<failure>();
    detail::countdown until(limit_);
    try {
      mine->rank = ranks();
      make(until);
    } catch (error const& e) {
      *mine = {rank(), e.code(), {}};
      detail::write_terminated(mine->text, e.happened());
    } catch (std::exception const& e) {
      *mine = {rank(), error_code::system, {}};
      detail::write_terminated(mine->text, e.what());
    }
    // Other ranks may use all of their time, and may begin a moment later.
    constexpr std::chrono::nanoseconds moment = std::chrono::seconds(1);
    detail::countdown all(std::min(limit_, std::chrono::nanoseconds::max() - moment) + moment);
    auto const complete = [&](int code, MPI_Request& request, char const* call) {
      detail::expect_success(code, call);
      auto const leave = [&] {
        static_cast<void>(mine.release());
        static_cast<void>(first.release());
      };
      if (detail::mpi_wait(request, all, communicator(), leave)) return;
      throw error({.code = error_code::timeout,
                   .rank = rank(),
                   .what = "timed out: not all ranks have finished setting up shared memory on their nodes",
                   .way_out = "find out what delays the other ranks, or raise TUTTI_TIMEOUT"});
    };
    MPI_Request request = MPI_REQUEST_NULL;
    complete(MPI_Iallreduce(&mine->rank, &first->rank, 1, MPI_INT, MPI_MIN, communicator(), &request), request,
             "MPI_Iallreduce");
    int const failed = first->rank;
    if (failed == ranks()) return;
    if (failed == rank()) *first = *mine;
    complete(MPI_Ibcast(first.get(), sizeof *first, MPI_BYTE, failed, communicator(), &request), request, "MPI_Ibcast");
    throw error({.code = first->code,
                 .rank = rank(),
                 .peer = failed,
                 .what = detail::join({"rank ", failed, ": ", first->text}),
                 .way_out = "make sure that all ranks of a node can share memory"});
  }

  [[gnu::cold]] std::vector<detail::location> locate(int node) {
    if (node == by_machine) node = first_local_rank();
    std::vector<detail::location> all(static_cast<std::size_t>(ranks()));
    together(MPI_COMM_NULL, [&] {
      detail::location const mine{node, detail::last_level_cache(detail::usable_cores())};
      detail::expect_success(
          MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, communicator()),
          "MPI_Allgather");
    });
    return all;
  }

  [[gnu::cold]] static detail::node_map nodes_of(std::vector<detail::location> const& all) {
    std::vector<int> keys;
    for (detail::location const& l : all) keys.push_back(l.node);
    return detail::node_map(keys);
  }

  [[gnu::cold]] std::unique_ptr<shm> meet_inside(detail::countdown& until) const {
    int const node = nodes_.node_of(rank()), local = nodes_.local_rank(rank()), size = nodes_.size(node);
    if (size == 1) return std::make_unique<shm>();
    if (size > max_ranks)
      throw error({.code = error_code::bad_argument,
                   .rank = rank(),
                   .what = detail::join({"a node has ", size, " ranks, but ", max_ranks, " at most can share memory"}),
                   .way_out = "start fewer ranks on each node, or use tutti::mpi"});
    detail::acquaintance const others{
        nodes_.members(node), {}, "find out what keeps these ranks of the same machine from connecting"};
    // Several jobs may run on one machine, and several nodes may be parts of one.
    std::string const job = detail::join({"node-", machine_.identity, "-", node});
    detail::rendezvous meeting(job, local, size, until, others);
    detail::descriptor const file = meeting.meet([&] { return shm::create(size, tracks_); });
    detail::share_uncaught_errors(file, offsetof(detail::segment_header, told), rank());
    return std::make_unique<shm>(file, local, size, tracks_, until, meeting.take_watches());
  }
  [[gnu::cold]] void connect() {
    if (nodes_.count() == 1) return;
    int const local = nodes_.local_rank(rank());
    bool const represents = nodes_.even() || local == 0;
    detail::mpi_communicator alike = make_part([&](MPI_Comm* made) {
      return MPI_Comm_split(communicator(), represents ? local : MPI_UNDEFINED, nodes_.node_of(rank()), made);
    });
    make_together([&](detail::countdown&) {
      if (represents) across_ = std::make_unique<mpi>(std::move(alike), tracks_, limit_, machine_.neighbours);
    });
  }

  std::vector<detail::location> locations_;
  detail::node_map nodes_;
  std::unique_ptr<shm> inside_;
  std::unique_ptr<mpi> across_;
  shm* shared_ = nullptr;  // inside_, even after take_inside()
  detail::at_finalize const tells_node_{[this] {
    if (shared_ != nullptr && shared_->ranks() > 1) shared_->leave();
  }};
};

static_assert(detail::divisible<hierarchical> && detail::may_survive<hierarchical> &&
              detail::has_levels<hierarchical> && detail::knows_locations<hierarchical>);

}  // namespace tutti
