// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on one machine or many: messages go over MPI, and there are two transports more, for collectives in two levels:
// shared memory for the ranks of each node, and MPI for ranks that stand for their nodes.
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
#include <sys/random.h>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi/mpi.hpp"
#include "tutti/transport/nodes.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace tutti {

class hierarchical : public mpi {
 public:
  static constexpr std::string_view name = "hierarchical";
  using inside = shm;
  using across = mpi;

  // Nodes are what MPI_COMM_TYPE_SHARED says, or the ranks that pass the same number, which all ranks do or none.
  static constexpr int by_machine = -1;

  // As mpi's; on all ranks, by the same kind of `node`.
  [[gnu::cold]] hierarchical(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit, int node = by_machine)
      : hierarchical(ranks, tracks, limit, node, [&](detail::deadline until) { return meet_inside(until); }) {}

  detail::node_map const& nodes() const noexcept { return nodes_; }
  std::vector<detail::location> const& locations() const noexcept { return locations_; }
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
  [[gnu::cold]] std::unique_ptr<hierarchical> subgroup(std::vector<int> const& members, detail::deadline until) {
    return naming_the_lost([&] { return on_nodes(members, meet_members(members, until), until); });
  }
  [[gnu::cold]] std::unique_ptr<hierarchical> shrink(std::vector<int> const& members, bool others_live,
                                                     detail::deadline until) {
    return on_nodes(members, meet_survivors(members, others_live), until);
  }

 private:
  // A transport of the members, whose communicator is `theirs`.
  [[gnu::cold]] std::unique_ptr<hierarchical> on_nodes(std::vector<int> const& members, detail::mpi_communicator theirs,
                                                       detail::deadline until) {
    int const node = nodes_.node_of(rank());
    std::vector<int> here;
    for (int const m : members)
      if (nodes_.node_of(m) == node) here.push_back(nodes_.local_rank(m));
    auto const meet = [&](detail::deadline) { return shared_->subgroup(here, until); };
    return std::unique_ptr<hierarchical>(new hierarchical(std::move(theirs), tracks_, limit_, node, meet));
  }

  template <class Ranks, class Meet>
  [[gnu::cold]] hierarchical(Ranks&& ranks, int tracks, std::chrono::nanoseconds limit, int node, Meet&& meet)
      : mpi(std::forward<Ranks>(ranks), tracks, limit), locations_(locate(node)), nodes_(nodes_of(locations_)) {
    make_together([&](detail::deadline until) { inside_ = meet(until); });
    shared_ = inside_.get();
    connect();
  }

  // Calls make(deadline) on all ranks. Where it throws on one of them, all throw what the lowest of those did: no rank waits
  // for one that has given up.
  template <class Make>
  [[gnu::cold]] void make_together(Make&& make) {
    together(MPI_COMM_NULL, [&] { make_and_compare(make); });
  }
  template <class Make>
  [[gnu::cold]] void make_and_compare(Make&& make) const {
    struct trouble {
      int least = 0, code = 0;
      char text[1016]{};
    };
    auto mine = std::make_unique<trouble>(), first = std::make_unique<trouble>();
    auto const until = detail::deadline::after(limit_);
    try {
      mine->least = ranks();
      make(until);
    } catch (error const& e) {
      *mine = {rank(), static_cast<int>(e.code()), {}};
      e.happened().copy(mine->text, sizeof mine->text - 1);
    } catch (std::exception const& e) {
      *mine = {rank(), static_cast<int>(error_code::system), {}};
      std::string_view(e.what()).copy(mine->text, sizeof mine->text - 1);
    }
    // Others may have till their deadline, and begin a moment later.
    auto const all = detail::deadline::after(limit_ + std::chrono::seconds(1));
    auto const complete = [&](int code, MPI_Request& request, char const* call) {
      detail::expect_success(code, call);
      auto const leave = [&] {
        static_cast<void>(mine.release());
        static_cast<void>(first.release());
      };
      if (detail::mpi_wait(request, all, communicator(), leave)) return;
      throw error({.code = error_code::timeout,
                   .rank = rank(),
                   .what = "not all ranks have come to share memory on their nodes",
                   .way_out = "see what keeps them, or raise TUTTI_TIMEOUT"});
    };
    MPI_Request request = MPI_REQUEST_NULL;
    complete(MPI_Iallreduce(&mine->least, &first->least, 1, MPI_INT, MPI_MIN, communicator(), &request), request,
             "MPI_Iallreduce");
    int const failed = first->least;
    if (failed == ranks()) return;
    if (failed == rank()) *first = *mine;
    complete(MPI_Ibcast(first.get(), sizeof *first, MPI_BYTE, failed, communicator(), &request), request, "MPI_Ibcast");
    throw error({.code = static_cast<error_code>(first->code),
                 .rank = rank(),
                 .peer = failed == rank() ? -1 : failed,
                 .what = detail::join({"rank ", failed, ": ", first->text}),
                 .way_out = "all ranks of a node must be able to share memory"});
  }

  [[gnu::cold]] std::vector<detail::location> locate(int node) {
    detail::mpi_communicator here;
    if (node == by_machine) {
      here = make_part([&](MPI_Comm* made) {
        return MPI_Comm_split_type(communicator(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, made);
      });
      node = rank();
    }
    // The ranks of a node meet under the name of the first of them, a random number: processes that count alike may share
    // a machine.
    struct introduction {
      detail::location where;
      std::uint64_t name = 0;
    } mine;
    if (::getrandom(&mine.name, sizeof mine.name, 0) != sizeof mine.name) mine.name = 0;
    std::vector<introduction> all(static_cast<std::size_t>(ranks()));
    together(here.get(), [&] {
      if (here.get() != MPI_COMM_NULL) detail::expect_success(MPI_Bcast(&node, 1, MPI_INT, 0, here.get()), "MPI_Bcast");
      cpu_set_t cores;
      CPU_ZERO(&cores);
      ::sched_getaffinity(0, sizeof cores, &cores);
      mine.where = {node, detail::last_level_cache(cores)};
      detail::expect_success(
          MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, communicator()),
          "MPI_Allgather");
    });
    std::vector<detail::location> out;
    for (introduction const& i : all) out.push_back(i.where);
    name_of_meeting_ = std::ranges::find(all, node, [](introduction const& i) { return i.where.node; })->name;
    return out;
  }

  [[gnu::cold]] static detail::node_map nodes_of(std::vector<detail::location> const& all) {
    std::vector<int> keys;
    for (detail::location const& l : all) keys.push_back(l.node);
    return detail::node_map(keys);
  }

  [[gnu::cold]] std::unique_ptr<shm> meet_inside(detail::deadline until) const {
    int const node = nodes_.node_of(rank()), local = nodes_.local_rank(rank()), size = nodes_.size(node);
    if (size == 1) return std::make_unique<shm>();
    detail::acquaintance const others{nodes_.members(node), {}, "see why the ranks of one machine cannot meet on it"};
    detail::rendezvous meeting(detail::join({"node-", name_of_meeting_}), local, size, until, others);
    detail::descriptor const file = meeting.meet([&] { return shm::create(size, tracks_); });
    return std::make_unique<shm>(file, local, size, tracks_, until);
  }
  [[gnu::cold]] void connect() {
    if (nodes_.count() == 1) return;
    int const local = nodes_.local_rank(rank());
    bool const stands = nodes_.even() || local == 0;
    detail::mpi_communicator alike = make_part([&](MPI_Comm* made) {
      return MPI_Comm_split(communicator(), stands ? local : MPI_UNDEFINED, nodes_.node_of(rank()), made);
    });
    make_together([&](detail::deadline) {
      if (stands) across_ = std::make_unique<mpi>(std::move(alike), tracks_, limit_);
    });
  }

  std::uint64_t name_of_meeting_ = 0;
  std::vector<detail::location> locations_;
  detail::node_map nodes_;
  std::unique_ptr<shm> inside_;
  std::unique_ptr<mpi> across_;
  shm* shared_ = nullptr;  // inside_, wherever it is
};

static_assert(detail::divisible<hierarchical> && detail::may_survive<hierarchical> &&
              detail::has_levels<hierarchical> && detail::knows_locations<hierarchical>);

}  // namespace tutti
