// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared memory with rooms: memory of a group of its ranks, inside the memory of the whole. A room takes no further address space, and
// its members do not meet: one of them makes the room, tells the others its address, and each enters when it likes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/transport/segment.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace interpose {

class room_shm : public tutti::shm {
 public:
  using tutti::shm::shm;

  // Returns the address, which is valid at all ranks, or nothing if the heap of this rank has no space left. A room is large, but few of
  // its pages are ever touched; so none are touched in advance, as those of allocate() are.
  std::optional<std::uint64_t> make_room(std::vector<int> const& members, int tracks) {
    int const ranks = static_cast<int>(members.size());
    std::byte* const base = own_heap().allocate(bytes_of_room(ranks, tracks));
    if (base == nullptr) return {};
    tutti::detail::segment const room(base, ranks, tracks, 0);
    std::uint64_t const address = shared_address(base);
    room.header().identity = memory().header().identity ^ address;
    for (int r = 0; r < ranks; ++r) {
      tutti::detail::rank_page const& known = memory().rank(members[static_cast<std::size_t>(r)]);
      tutti::detail::rank_page& page = room.rank(r);
      page.process = known.process;
      page.process_namespace = known.process_namespace;
      std::ranges::copy(known.cores, page.cores);
      page.time_group = known.time_group;
      page.probe = known.probe;
      page.can_fetch.store(known.can_fetch.load(std::memory_order_acquire), std::memory_order_relaxed);
      page.status.store(tutti::detail::presence::joined, std::memory_order_relaxed);
    }
    return address;
  }
  // The transport of this rank in a room that was made for the same members and tracks. It uses the heap of this one, which must outlive
  // it.
  std::unique_ptr<room_shm> enter_room(std::uint64_t room, std::vector<int> const& members, int tracks) {
    int const own = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    tutti::detail::segment const within(base_of(room), static_cast<int>(members.size()), tracks, 0);
    return std::unique_ptr<room_shm>(new room_shm(*this, within, own, members, tracks));
  }
  // Called by the rank that made the room, when the transports of all its members are gone.
  void remove_room(std::uint64_t room, int ranks, int tracks) noexcept {
    own_heap().deallocate(base_of(room), bytes_of_room(ranks, tracks));
  }

  // Calls f before each nap, which is then short.
  void while_waiting(void (*f)() noexcept) noexcept { meanwhile_ = f; }
  template <class Ready>
  void nap(Ready&& ready) noexcept {
    if (meanwhile_ != nullptr) meanwhile_();
    tutti::shm::nap(std::forward<Ready>(ready), meanwhile_ != nullptr);
  }

 private:
  room_shm(room_shm& around, tutti::detail::segment const& within, int rank, std::vector<int> const& members,
           int tracks)
      : tutti::shm(around, within, rank, members, tracks) {}

  static std::size_t bytes_of_room(int ranks, int tracks) {
    return tutti::detail::segment(nullptr, ranks, tracks, 0).bytes();
  }
  std::byte* base_of(std::uint64_t room) const noexcept { return const_cast<std::byte*>(at_shared_address(room)); }

  void (*meanwhile_)() noexcept = nullptr;
};

}  // namespace interpose
