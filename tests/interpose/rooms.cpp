// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups in a room of the memory that their ranks share already. No MPI takes part.
// labels: processes
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "../../tools/interpose/room_shm.hpp"
#include "support/expect.hpp"
#include "support/few_cores.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using interpose::room_shm;

namespace {

constexpr int room_tracks = max_tracks;

// Executes f(communicator<room_shm>&) on ranks that are processes.
template <class F>
void run_with_rooms(int ranks, F&& f) {
  descriptor const file = shm::create(ranks, all_tracks);
  run_local(ranks, [&](auto& outer) {
    communicator<room_shm> comm(
        std::make_unique<room_shm>(file, outer.rank(), ranks, all_tracks, countdown(std::chrono::seconds(60))));
    f(comm);
  });
}

// The address of a room that the first member makes; the others learn it from a broadcast to all.
std::uint64_t shared_room(communicator<room_shm>& comm, std::vector<int> const& members) {
  std::uint64_t room = 0;
  if (comm.rank() == members.front()) room = comm.engine().transport().make_room(members, room_tracks).value();
  return broadcast(comm, room, members.front());
}

}  // namespace

TEST_CASE("members of a room make collectives, large ones too, and others do not take part") {
  CHECK_NOTHROW(run_with_rooms(4, [](auto& comm) {
    std::vector<int> const members{2, 0, 3};
    std::uint64_t const room = shared_room(comm, members);
    if (comm.rank() != 1) {
      communicator<room_shm> group(comm.engine().transport().enter_room(room, members, room_tracks));
      expect(members[static_cast<std::size_t>(group.rank())] == comm.rank(), "a member has another rank's place");
      for (int round = 0; round < 10; ++round)
        for (auto const count : {std::size_t{1}, std::size_t{1000}, std::size_t{300000}}) {
          std::vector<int> data(count, comm.rank());
          all_reduce(group, data);
          expect(data == std::vector<int>(count, 5), "a sum in a room is wrong");
        }
    }
    barrier(comm);
    if (comm.rank() == 2) comm.engine().transport().remove_room(room, 3, room_tracks);
  }));
}

TEST_CASE("members of a room know that ranks outside share their cores") {
  few_cores const two(2);
  descriptor const file = shm::create(3, all_tracks);
  CHECK_NOTHROW(run_local(3, [&](auto& outer) {
    communicator<room_shm> comm(
        std::make_unique<room_shm>(file, outer.rank(), 3, all_tracks, countdown(std::chrono::seconds(60))));
    expect(comm.engine().transport().crowded(), "three ranks have two cores");
    std::vector<int> const members{0, 1};
    std::uint64_t const room = shared_room(comm, members);
    if (comm.rank() != 2) {
      auto const group = comm.engine().transport().enter_room(room, members, room_tracks);
      expect(group->crowded(), "two ranks are taken for the only ones on their cores");
      expect(group->waits().spins == patience_sharing_cores.spins, "a rank spins on a core that a third one may need");
    }
    barrier(comm);
    if (comm.rank() == 0) comm.engine().transport().remove_room(room, 2, room_tracks);
  }));
}

TEST_CASE("a member may make a call before another has entered, and rooms are used again") {
  CHECK_NOTHROW(run_with_rooms(2, [](auto& comm) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> const members{0, 1};
      std::uint64_t const room = shared_room(comm, members);
      auto const enter = [&] {
        return communicator<room_shm>(comm.engine().transport().enter_room(room, members, room_tracks));
      };
      std::vector<int> value(1, comm.rank() == 0 ? round : -1);
      if (comm.rank() == 0) {
        auto group = enter();
        broadcast(group, value, 0);
      }
      barrier(comm);
      if (comm.rank() == 1) {
        auto group = enter();
        broadcast(group, value, 0);
      }
      expect(value[0] == round, "a broadcast in a room is wrong");
      barrier(comm);
      if (comm.rank() == 0) comm.engine().transport().remove_room(room, 2, room_tracks);
    }
  }));
}

TEST_CASE("where the heap is too small, there is no room") {
  ::setenv("TUTTI_HEAP", "1000000", 1);
  CHECK_NOTHROW(run_with_rooms(2, [](auto& comm) {
    expect(!comm.engine().transport().make_room({0, 1}, room_tracks), "there is a room in too small a heap");
  }));
  ::unsetenv("TUTTI_HEAP");
}

TEST_CASE("a rank that leaves a room, or makes another call, gives the other an error") {
  CHECK_NOTHROW(run_with_rooms(2, [](auto& comm) {
    std::vector<int> const members{1, 0};
    std::uint64_t const room = shared_room(comm, members);
    std::optional<communicator<room_shm>> group(comm.engine().transport().enter_room(room, members, room_tracks));
    if (comm.rank() == 0) group.reset();
    error_code found{};
    try {
      if (comm.rank() == 1) barrier(*group);
    } catch (error const& e) {
      found = e.code();
    }
    expect(comm.rank() == 0 || found == error_code::rank_left, "a rank that left a room is not missed");
    barrier(comm);
  }));
}
