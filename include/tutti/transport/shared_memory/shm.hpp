// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are processes of one machine: how they join, and what they see of each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "tutti/transport/concept.hpp"
#include "tutti/transport/shared_memory/heap.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"
#include "tutti/transport/shared_memory/segment_file.hpp"
#include "tutti/transport/system/descriptor.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti {
namespace detail {
struct acquaintance;
}

class shm : public detail::mailbox {
 public:
  static constexpr std::string_view name = "shm";
  static constexpr bool memory_outlives_owner = true;  // mapped as long as anybody reads it

  // The memory of a group of ranks, to be handed to all of them: inherited, or sent over a socket.
  [[gnu::cold]] static detail::descriptor create(int ranks, int tracks);

  // One rank, alone: no segment at all.
  shm();

  // Joins the group; returns when all ranks have. The deadline is for the slowest of them.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them ended before, system.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::deadline until);
  [[gnu::cold]] ~shm();
  shm(shm const&) = delete;
  shm& operator=(shm const&) = delete;

  // Memory that every rank can read in place.
  std::byte* allocate(std::size_t bytes);
  void deallocate(std::byte* memory, std::size_t bytes) noexcept;

  // Whether the process of a peer has ended, orderly or not.
  bool lost(int peer) const noexcept;

  void leave() noexcept;

  // Of all ranks; reads what the system says of caches.
  std::vector<detail::location> locations() const;

  // Copies from the private memory of a peer: one copy where slots take two, for half a microsecond a call. Returns 0, or
  // the system's reason: ESRCH where the peer has ended, EFAULT where there is nothing to read.
  int fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept;

  // A transport for these ranks, in this order, for ever apart from this one. Each of them calls it, with the same list;
  // it returns when all have.
  // The name under which they meet is the same whenever they make a group, and still two groups do not mix: nobody gets
  // through the first meeting before its door is closed. Threads that make groups of the same members at once tell them
  // apart by a number.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them has ended or left, system.
  [[gnu::cold]] std::unique_ptr<shm> subgroup(std::vector<int> const& members, detail::deadline until,
                                              std::uint64_t number = 0);

 private:
  // Joins the group without touching more of its memory than that takes.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::deadline until,
      detail::acquaintance const& others, std::vector<detail::process_watch> watches);

  // A process that the program has forked has this object too: what it destroys must not touch the rank's memory.
  bool is_the_rank() const noexcept;

  // Writes down who this rank is before it asks for the address space of all: a process that is refused it will end, and
  // the others learn that at once.
  [[gnu::cold]] static detail::segment_mapping introduce(detail::descriptor const& file, int rank, int ranks,
                                                         int tracks);

  // The pages that every call would touch for the first time one by one. Where ranks are many, their channels are too, and
  // most are never used.
  void populate() noexcept;

  bool has_joined(int r) const noexcept { return status(r) != detail::presence::absent; }
  bool has_fetched(int r) const noexcept { return fetches(r) != detail::fetching::untried; }
  detail::fetching fetches(int r) const noexcept { return memory().rank(r).can_fetch.load(std::memory_order_acquire); }

  // Whether the system lets this rank read its peers' private memory (ptrace_scope, seccomp, containers).
  [[gnu::cold]] bool try_to_fetch() noexcept;

  static std::uint64_t process_namespace();

  // Waits for the others, and keeps a handle on their processes. Where process numbers have different meanings
  // (containers), a dead peer is noticed at the deadline only.
  [[gnu::cold]] void meet(bool (shm::*here)(int) const noexcept, detail::deadline until,
                          detail::acquaintance const& others);

  // Of ranks that were to join: one that has ended, before any that has given up, as others do because of that one.
  [[gnu::cold]] int gone();

  detail::presence status(int r) const noexcept { return memory().rank(r).status.load(std::memory_order_acquire); }

  // As soon as the peer has said who it is.
  [[gnu::cold]] void begin_watch(int r);

  static constexpr std::size_t half_of_all_addresses = std::size_t{1} << 46;
  static constexpr std::size_t group_heap_space = std::size_t{1} << 38;  // for 256 groups in the other half
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static constexpr int populate_write = 23;   // MADV_POPULATE_WRITE, of Linux 5.14; older ones refuse it without harm
  static constexpr int populated_tracks = 2;  // those of two phases, or of two lanes

  std::uint32_t process_ = static_cast<std::uint32_t>(::getpid());
  int tracks_ = 0;
  detail::segment_mapping mapping_;
  detail::heap heap_;
  std::vector<detail::process_watch> watches_;
};

static_assert(detail::maps_memory<shm> && detail::shares_packets<shm> && detail::divisible<shm> &&
              detail::knows_locations<shm> && detail::holds_votes<shm>);

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/shm_impl.hpp"
#endif
