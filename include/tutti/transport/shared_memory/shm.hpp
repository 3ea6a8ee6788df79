// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are processes of one machine: how they join, and what they see of each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/shared_memory/cores.hpp"
#include "tutti/transport/shared_memory/heap.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/segment_file.hpp"
#include "tutti/transport/system/descriptor.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti {

class shm : public detail::mailbox {
 public:
  static constexpr std::string_view name = "shm";
  static constexpr bool memory_outlives_owner = true;  // mapped as long as anybody reads it

  // The memory of a group of ranks, to be handed to all of them: inherited, or sent over a socket.
  [[gnu::cold]] static detail::descriptor create(int ranks, int tracks) {
    return detail::create_segment_file(ranks, tracks, half_of_all_addresses);
  }

  // One rank, alone: no segment at all.
  shm() : detail::mailbox(0, 1, 0), heap_(nullptr, 0) {}

  // Joins the group; returns when all ranks have. The deadline is for the slowest of them.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them ended before, system.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::deadline until)
      : shm(file, rank, ranks, tracks, until, {}, std::vector<detail::process_watch>(static_cast<std::size_t>(ranks))) {
    populate();
  }
  shm(shm const&) = delete;
  shm& operator=(shm const&) = delete;

  // Memory that every rank can read in place.
  std::byte* allocate(std::size_t bytes) {
    if (ranks() == 1) return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{detail::page}));
    std::byte* const memory = heap_.allocate(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    // Pages that are touched one by one cost 1.6 us each; in one go, 0.12.
    if (bytes >= huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
    ::madvise(memory, bytes, populate_write);
    return memory;
  }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept {
    if (ranks() == 1) ::operator delete(memory, std::align_val_t{detail::page});
    else if (is_the_rank()) heap_.deallocate(memory, bytes);
  }

  // Whether the process of a peer has ended, orderly or not.
  bool lost(int peer) const noexcept { return watches_[static_cast<std::size_t>(peer)].ended(); }

  void leave() noexcept {
    if (is_the_rank()) detail::mailbox::leave();
  }

  // Of all ranks; reads what the system says of caches.
  std::vector<detail::location> locations() const {
    return ranks() == 1 ? std::vector<detail::location>(1) : detail::locations_in(memory(), ranks());
  }

  // Copies from the private memory of a peer: one copy where slots take two, for half a microsecond a call. Returns 0, or
  // the system's reason: ESRCH where the peer has ended, EFAULT where there is nothing to read.
  int fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    auto const process = static_cast<pid_t>(memory().rank(peer).process);
    iovec const here{to, bytes}, there{const_cast<std::byte*>(from), bytes};
    ssize_t const copied = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    return copied == static_cast<ssize_t>(bytes) ? 0 : copied < 0 ? errno : EFAULT;
  }

  // A transport for these ranks, in this order, for ever apart from this one. Each of them calls it, with the same list;
  // it returns when all have.
  // The name under which they meet is the same whenever they make a group, and still two groups do not mix: nobody gets
  // through the first meeting before its door is closed. Threads that make groups of the same members at once tell them
  // apart by a number.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them has ended or left, system.
  [[gnu::cold]] std::unique_ptr<shm> subgroup(std::vector<int> const& members, detail::deadline until,
                                              std::uint64_t number = 0) {
    if (members.size() == 1) return std::make_unique<shm>();
    int const ranks = static_cast<int>(members.size());
    int const own = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    std::string job = "group-" + std::to_string(memory().header().identity) + "-" + std::to_string(number);
    for (int const m : members) job += "-" + std::to_string(m);
    auto const gone = [&](int r) {
      int const peer = members[static_cast<std::size_t>(r)];
      return status(peer) == detail::presence::left || lost(peer);
    };
    detail::acquaintance const others{members, gone, detail::members_must_join};
    detail::rendezvous meeting(job, own, ranks, until, others);
    detail::descriptor const file =
        meeting.meet([&] { return detail::create_segment_file(ranks, tracks_, group_heap_space); });
    std::vector<detail::process_watch> watches;
    watches.reserve(members.size());
    for (int const m : members) watches.push_back(watches_[static_cast<std::size_t>(m)]);
    return std::unique_ptr<shm>(new shm(file, own, ranks, tracks_, until, others, std::move(watches)));
  }

 private:
  // Joins the group without touching more of its memory than that takes.
  shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::deadline until,
      detail::acquaintance const& others, std::vector<detail::process_watch> watches)
      : detail::mailbox(rank, ranks, tracks),
        tracks_(tracks),
        mapping_(introduce(file, rank, ranks, tracks)),
        heap_(nullptr, 0),
        watches_(std::move(watches)) {
    detail::segment const& memory = mapping_.memory();
    heap_ = detail::heap(memory.heap(rank), memory.heap_bytes());
    auto const base = reinterpret_cast<std::uintptr_t>(memory.base());
    detail::rank_page& self = memory.rank(rank);
    detail::note_cores(self);
    self.probe = reinterpret_cast<std::uintptr_t>(&process_);
    attach(memory, tracks, reinterpret_cast<std::uintptr_t>(memory.heap(0)), base + memory.bytes(), base,
           detail::patience_sharing_cores);
    self.status.store(detail::presence::joined, std::memory_order_release);
    wake_all();
    try {
      meet([&](int r) { return status(r) != detail::presence::absent; }, until, others);
      for (int r = 0; r < ranks; ++r) begin_watch(r);
      self.can_fetch.store(try_to_fetch() ? detail::fetching::works : detail::fetching::refused,
                           std::memory_order_release);
      wake_all();
      meet([&](int r) { return fetches(r) != detail::fetching::untried; }, until, others);
    } catch (...) {
      leave();
      throw;
    }
    bool all_fetch = true;
    for (int r = 0; r < ranks; ++r) all_fetch &= fetches(r) == detail::fetching::works;
    allow_pulls(all_fetch);
    attach(memory, tracks, reinterpret_cast<std::uintptr_t>(memory.heap(0)), base + memory.bytes(), base,
           detail::patience_for(memory, ranks));
  }

  // A process that the program has forked has this object too: what it destroys must not touch the rank's memory.
  bool is_the_rank() const noexcept { return memory().rank(rank()).process == static_cast<std::uint32_t>(::getpid()); }

  // Writes down who this rank is before it asks for the address space of all: a process that is refused it will end, and
  // the others learn that at once.
  [[gnu::cold]] static detail::segment_mapping introduce(detail::descriptor const& file, int rank, int ranks,
                                                         int tracks) {
    auto const front = detail::segment_mapping::front(file, ranks, tracks);
    detail::rank_page& self = front.memory().rank(rank);
    self.process_namespace = process_namespace();
    std::atomic_ref(self.process).store(static_cast<std::uint32_t>(::getpid()), std::memory_order_release);
    try {
      return detail::segment_mapping(file, ranks, tracks);
    } catch (...) {
      self.status.store(detail::presence::left, std::memory_order_release);
      throw;
    }
  }

  // The pages that every call would touch for the first time one by one. Where ranks are many, their channels are too, and
  // most are never used.
  void populate() noexcept {
    if (ranks() > 8) return;
    detail::segment const& m = memory();
    for (int r = 0; r < ranks(); ++r) {
      ::madvise(&m.rank(r), sizeof(detail::rank_page), populate_write);
      for (int t = 0; t < populated_tracks && r != rank(); ++t) {
        ::madvise(&m.between(rank(), r, t), m.channel_bytes(t), populate_write);
        ::madvise(&m.between(r, rank(), t), m.channel_bytes(t), populate_write);
      }
    }
  }

  detail::fetching fetches(int r) const noexcept { return memory().rank(r).can_fetch.load(std::memory_order_acquire); }

  // Whether the system lets this rank read its peers' private memory (ptrace_scope, seccomp, containers).
  [[gnu::cold]] bool try_to_fetch() noexcept {
    for (int r = 0; r < ranks(); ++r) {
      detail::rank_page const& peer = memory().rank(r);
      std::uint32_t said = 0;
      if (r == rank()) continue;
      if (peer.process_namespace != memory().rank(rank()).process_namespace) return false;
      auto const at = reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(peer.probe));
      if (fetch(r, reinterpret_cast<std::byte*>(&said), at, sizeof said) != 0 || said != peer.process) return false;
    }
    return true;
  }

  static std::uint64_t process_namespace() {
    struct stat info{};
    return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  }

  // Waits for the others, and keeps a handle on their processes. Where process numbers have different meanings
  // (containers), a dead peer is noticed at the deadline only.
  template <class Here>
  [[gnu::cold]] void meet(Here const& here, detail::deadline until, detail::acquaintance const& others) {
    auto const name_of = [&](int r) { return others.names.empty() ? r : others.names[static_cast<std::size_t>(r)]; };
    auto const absent = [&] {
      std::vector<int> out;
      for (int r = 0; r < ranks(); ++r)
        if (!here(r)) out.push_back(name_of(r));
      return out;
    };
    auto const all_here = [&] {
      for (int r = 0; r < ranks(); ++r)
        if (!here(r)) return false;
      return true;
    };
    auto const look = [&] { return all_here() ? detail::progress::done : detail::progress::stuck; };
    bool const met = detail::wait_until_done(look, waits(), until, [&](auto const& ready) {
      nap(ready);
      if (int const r = gone(); r >= 0) {
        if (ready()) return true;  // it came, like all others, and went its way since
        throw error({.code = error_code::rank_lost,
                     .rank = name_of(rank()),
                     .peer = name_of(r),
                     .what = "rank " + std::to_string(name_of(r)) + " (process " +
                             std::to_string(memory().rank(r).process) + ") ended before all ranks had joined",
                     .way_out = "see the output of that rank"});
      }
      return true;
    });
    if (!met) throw detail::ranks_absent(name_of(rank()), absent(), others.way_out);
  }

  // Of ranks that were to join: one that has ended, before any that has given up, as others do because of that one.
  [[gnu::cold]] int gone() {
    int out = -1;
    for (int r = 0; r < ranks(); ++r) {
      begin_watch(r);
      if (status(r) == detail::presence::left && out < 0) out = r;
    }
    for (int r = 0; r < ranks(); ++r)
      if (lost(r)) return r;
    return out;
  }

  detail::presence status(int r) const noexcept { return memory().rank(r).status.load(std::memory_order_acquire); }

  // As soon as the peer has said who it is.
  [[gnu::cold]] void begin_watch(int r) {
    detail::process_watch& watch = watches_[static_cast<std::size_t>(r)];
    detail::rank_page& peer = memory().rank(r);
    std::uint32_t const process = std::atomic_ref(peer.process).load(std::memory_order_acquire);
    if (watch.begun() || process == 0 || r == rank()) return;
    if (peer.process_namespace == memory().rank(rank()).process_namespace) watch.begin(static_cast<pid_t>(process));
  }

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
