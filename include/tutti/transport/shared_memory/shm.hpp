// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport between processes of one machine.
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
  static constexpr bool memory_outlives_owner = true;  // mapped as long as any rank reads it

  // Creates the file behind the memory of a group, to be handed to all ranks: inherited, or sent over a socket.
  [[gnu::cold]] static detail::descriptor create(int ranks, int tracks);

  // A single rank, without a segment.
  shm();

  // Joins the group; returns when all ranks have. The deadline applies to the slowest of them. `watches`: of the processes
  // of ranks, as far as they are known; those of the others are found in the segment.
  // Throws error: timeout with the ranks that did not arrive, rank_lost if one of them ended first, system.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::countdown until,
      std::vector<detail::process_watch> watches = {});
  [[gnu::cold]] ~shm();
  shm(shm const&) = delete;
  shm& operator=(shm const&) = delete;

  // Allocates memory that every rank can read in place.
  std::byte* allocate(std::size_t bytes);
  void deallocate(std::byte* memory, std::size_t bytes) noexcept;
  // Whether that memory is part of this transport and ends with it. If not, deallocate_alone() frees it later, too.
  bool owns_allocations() const noexcept { return ranks() > 1; }
  static void deallocate_alone(std::byte* memory) noexcept {
    ::operator delete(memory, std::align_val_t{detail::page});
  }

  // Whether the process of a peer has ended, in order or not, or has lost its memory, as by exec.
  bool lost(int peer) const noexcept;
  pid_t process_of(int peer) const noexcept { return static_cast<pid_t>(memory().rank(peer).process); }
  bool stopped(int peer) const noexcept { return watches_[static_cast<std::size_t>(peer)].stopped(); }

  // The locations of all ranks; reads the system's description of its caches.
  std::vector<detail::location> locations() const;

  // Copies from the private memory of a peer: one copy instead of the two through slots, at half a microsecond per
  // call. Returns 0, or the system's error: ESRCH if the peer has ended, EFAULT if there is nothing to read.
  int fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept;

  // Creates an independent transport of these ranks, in this order. Each of them calls it with the same list; it
  // returns when all have. Members meet under the same name each time, and still two groups do not mix, because no rank
  // leaves the first meeting before its socket is closed.
  // `others_live`: the ranks outside use their cores, too.
  // Throws error: timeout with the ranks that did not arrive, rank_lost if one of them has ended or left, system. If one of them votes
  // instead (ballot.hpp): rank_lost or rank_left with the rank that is gone, else revoked.
  [[gnu::cold]] std::unique_ptr<shm> subgroup(std::vector<int> const& members, detail::countdown& until,
                                              bool others_live = true);

 protected:
  // The transport of a group of these ranks whose memory, without heaps, lies within that of `around`. It uses the heap of that one,
  // which must outlive it.
  shm(shm& around, detail::segment const& within, int rank, std::vector<int> const& members, int tracks);

  detail::heap& own_heap() noexcept { return *heap_; }

 private:
  // Joins the group, touching no more of its memory than joining needs.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::countdown& until,
      detail::acquaintance const& others, bool crowded, std::vector<detail::process_watch> watches);

  // Records this rank's process before mapping the address space of all ranks: if the system refuses the mapping, this
  // process ends, and the others learn that at once.
  [[gnu::cold]] static detail::segment_mapping introduce(detail::descriptor const& file, int rank, int ranks,
                                                         int tracks, detail::acquaintance const& others);

  // Populates the pages that calls would otherwise touch one by one. With many ranks there are many channels, most of
  // which are never used.
  void populate() noexcept;

  // The memory of all heaps.
  [[gnu::cold]] static detail::readable_memory reach_of(detail::segment const& s) noexcept;
  // madvise, from the start of the system's page, which may be larger than detail::page.
  [[gnu::cold]] static int advise(void* memory, std::size_t bytes, int advice) noexcept;

  // Whether every rank could read its peers' private memory.
  [[gnu::cold]] bool all_fetch() const noexcept;

  // Whether this rank can read the private memory of a peer, which is still that of the rank.
  [[gnu::cold]] bool reads_memory_of(int peer) noexcept;
  int copy_from(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept;

  // Whether the system lets this rank read its peers' private memory (it depends on ptrace_scope, seccomp and
  // containers).
  [[gnu::cold]] bool try_to_fetch() noexcept;

  detail::presence status(int r) const noexcept { return memory().rank(r).status.load(std::memory_order_acquire); }

  // Keeps a handle on the process of a peer, as soon as that has recorded it. If process numbers have different meanings
  // (containers), rank 0 notices dead peers and tells the others, and all notice rank 0's death; see rendezvous.
  [[gnu::cold]] void begin_watch(int r);

  static constexpr std::size_t group_heap_space = std::size_t{1} << 38;  // room for 256 groups in the other half
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  // MADV_POPULATE_WRITE, since Linux 5.14; older kernels reject it without harm
  static constexpr int populate_write = 23;
  static constexpr int populated_tracks = 2;  // for two phases, or two lanes

  std::uint32_t process_ = static_cast<std::uint32_t>(::getpid());
  int tracks_ = 0;
  detail::segment_mapping mapping_;
  std::shared_ptr<detail::heap> heap_;
  std::vector<detail::process_watch> watches_;
  std::vector<std::atomic<bool>> without_memory_;  // peers, as fetch() has found
};

static_assert(detail::maps_memory<shm> && detail::shares_packets<shm> && detail::divisible<shm> &&
              detail::knows_locations<shm> && detail::holds_votes<shm>);

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/shm_impl.hpp"
#endif
