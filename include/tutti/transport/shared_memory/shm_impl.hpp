// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/shm.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/shared_memory/cores.hpp"
#include "tutti/transport/shared_memory/joining.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/system/memory_limit.hpp"

namespace tutti {

TUTTI_INLINE detail::descriptor shm::create(int ranks, int tracks) {
  return detail::create_segment_file(ranks, tracks, detail::half_of_all_addresses);
}

TUTTI_INLINE shm::shm() : detail::mailbox(0, 1, 0) {}

TUTTI_INLINE shm::shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::countdown until,
                      std::vector<detail::process_watch> watches)
    : shm(file, rank, ranks, tracks, until, {}, false, std::move(watches)) {
  populate();
}

TUTTI_INLINE shm::shm(detail::descriptor const& file, int rank, int ranks, int tracks, detail::countdown& until,
                      detail::acquaintance const& others, bool crowded, std::vector<detail::process_watch> watches)
    : detail::mailbox(rank, ranks, tracks),
      tracks_(tracks),
      mapping_(introduce(file, rank, ranks, tracks, others)),
      watches_(watches.empty() ? std::vector<detail::process_watch>(static_cast<std::size_t>(ranks))
                               : std::move(watches)),
      without_memory_(static_cast<std::size_t>(ranks)) {
  detail::segment const& memory = mapping_.memory();
  heap_ = std::make_shared<detail::heap>(memory.heap(rank), memory.heap_bytes());
  detail::rank_page& self = memory.rank(rank);
  detail::note_cores(self);
  self.probe = reinterpret_cast<std::uintptr_t>(&process_);
  attach(memory, tracks, reach_of(memory), detail::patience_sharing_cores);
  auto const watched_and_lost = [this](int r) {
    begin_watch(r);
    return lost(r);
  };
  detail::joining(*this, watched_and_lost, others, until).join([&] {
    for (int r = 0; r < ranks; ++r) begin_watch(r);
    return try_to_fetch();
  });
  attach(memory, tracks, reach_of(memory), detail::patience_for(memory, ranks, crowded));
  allow_pulls(all_fetch());
}

TUTTI_INLINE std::byte* shm::allocate(std::size_t bytes) {
  if (ranks() == 1) return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{detail::page}));
  // The system would kill this process at the first touch of a page beyond the limit.
  if (bytes >= huge_page && bytes > detail::memory_left()) throw std::bad_alloc();
  std::byte* const memory = heap_->allocate(bytes);
  if (memory == nullptr) throw detail::heap_full();
  // Touching pages one by one costs 1.6 us each; 0.12 us in one go.
  if (bytes >= huge_page) advise(memory, bytes, MADV_HUGEPAGE);
  if (advise(memory, bytes, populate_write) != 0 && (errno == ENOMEM || errno == EFAULT)) {
    heap_->deallocate(memory, bytes);
    throw std::bad_alloc();  // better than a signal at the first touch
  }
  return memory;
}

TUTTI_INLINE void shm::deallocate(std::byte* memory, std::size_t bytes) noexcept {
  if (!owns_allocations()) deallocate_alone(memory);
  else heap_->deallocate(memory, bytes);
}

TUTTI_INLINE bool shm::lost(int peer) const noexcept {
  auto const p = static_cast<std::size_t>(peer);
  return without_memory_[p].load(std::memory_order_relaxed) || watches_[p].ended();
}

TUTTI_INLINE std::vector<detail::location> shm::locations() const {
  return ranks() == 1 ? std::vector<detail::location>(1) : detail::locations_in(memory(), ranks());
}

TUTTI_INLINE int shm::fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
  int const code = copy_from(peer, to, from, bytes);
  if (code != EFAULT || reads_memory_of(peer)) return code;
  without_memory_[static_cast<std::size_t>(peer)].store(true, std::memory_order_relaxed);
  return ESRCH;
}

TUTTI_INLINE int shm::copy_from(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
  iovec const here{to, bytes}, there{const_cast<std::byte*>(from), bytes};
  ssize_t const copied = ::process_vm_readv(process_of(peer), &here, 1, &there, 1, 0);
  return copied == static_cast<ssize_t>(bytes) ? 0 : copied < 0 ? errno : EFAULT;
}

TUTTI_INLINE std::unique_ptr<shm> shm::subgroup(std::vector<int> const& members, detail::countdown& until,
                                                bool others_live) {
  if (members.size() == 1) return std::make_unique<shm>();
  int const ranks = static_cast<int>(members.size());
  int const own = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
  std::string job = detail::join({"group-", memory().header().identity});
  for (int const m : members) detail::append(job, {"-", m});
  // A rank may have left because another had died, which is the one to name then.
  auto const died = [&](int m) { return status(m) != detail::presence::left && lost(m); };
  auto const gone = [&](int r) {
    int const peer = members[static_cast<std::size_t>(r)];
    if (votes().awaits_vote(peer) && std::ranges::none_of(members, died))
      report_vote(peer, [this](int any) { return lost(any); });
    return died(peer) || (status(peer) == detail::presence::left && std::ranges::none_of(members, died));
  };
  detail::acquaintance const others{members, gone, detail::members_must_join};
  detail::rendezvous meeting(job, own, ranks, until, others);
  detail::descriptor const file =
      meeting.meet([&] { return detail::create_segment_file(ranks, tracks_, group_heap_space); });
  std::vector<detail::process_watch> watches = meeting.take_watches();
  for (std::size_t r = 0; r < watches.size(); ++r)
    if (auto const& known = watches_[static_cast<std::size_t>(members[r])]; known.begun()) watches[r] = known;
  bool const lacks_cores = others_live && crowded();
  return std::unique_ptr<shm>(new shm(file, own, ranks, tracks_, until, others, lacks_cores, std::move(watches)));
}

TUTTI_INLINE shm::shm(shm& around, detail::segment const& within, int rank, std::vector<int> const& members, int tracks)
    : detail::mailbox(rank, static_cast<int>(members.size()), tracks),
      tracks_(tracks),
      heap_(around.heap_),
      without_memory_(members.size()) {
  for (int const m : members) watches_.push_back(around.watches_[static_cast<std::size_t>(m)]);
  attach(within, tracks, reach_of(around.memory()), detail::patience_for(within, ranks(), around.crowded()));
  allow_pulls(all_fetch());
}

TUTTI_INLINE detail::segment_mapping shm::introduce(detail::descriptor const& file, int rank, int ranks, int tracks,
                                                    detail::acquaintance const& others) {
  auto const front = detail::segment_mapping::front(file, ranks, tracks);
  detail::rank_page& self = front.memory().rank(rank);
  self.process_namespace = detail::process_namespace();
  std::atomic_ref(self.process).store(static_cast<std::uint32_t>(::getpid()), std::memory_order_release);
  try {
    return detail::segment_mapping(file, ranks, tracks);
  } catch (...) {
    detail::joining::refuse(front.memory(), rank, others);
    throw;
  }
}

TUTTI_INLINE int shm::advise(void* memory, std::size_t bytes, int advice) noexcept {
  auto const before = reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return ::madvise(static_cast<std::byte*>(memory) - before, before + bytes, advice);
}

TUTTI_INLINE void shm::populate() noexcept {
  if (ranks() > 8) return;
  detail::segment const& m = memory();
  for (int r = 0; r < ranks(); ++r) {
    advise(&m.rank(r), sizeof(detail::rank_page), populate_write);
    for (int t = 0; t < populated_tracks && r != rank(); ++t) {
      advise(&m.between(rank(), r, t), m.channel_bytes(t), populate_write);
      advise(&m.between(r, rank(), t), m.channel_bytes(t), populate_write);
    }
  }
}

TUTTI_INLINE detail::readable_memory shm::reach_of(detail::segment const& s) noexcept {
  auto const base = reinterpret_cast<std::uintptr_t>(s.base());
  return {reinterpret_cast<std::uintptr_t>(s.heap(0)), base + s.bytes(), base};
}

TUTTI_INLINE bool shm::all_fetch() const noexcept {
  for (int r = 0; r < ranks(); ++r)
    if (memory().rank(r).can_fetch.load(std::memory_order_acquire) != detail::fetching::works) return false;
  return true;
}

TUTTI_INLINE bool shm::try_to_fetch() noexcept {
  for (int r = 0; r < ranks(); ++r) {
    detail::rank_page const& peer = memory().rank(r);
    if (r == rank()) continue;
    if (peer.process_namespace != memory().rank(rank()).process_namespace || !reads_memory_of(r)) return false;
  }
  return true;
}

TUTTI_INLINE bool shm::reads_memory_of(int peer) noexcept {
  detail::rank_page const& there = memory().rank(peer);
  std::uint32_t said = 0;
  auto const at = reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(there.probe));
  return copy_from(peer, reinterpret_cast<std::byte*>(&said), at, sizeof said) == 0 && said == there.process;
}

TUTTI_INLINE void shm::begin_watch(int r) {
  detail::process_watch& watch = watches_[static_cast<std::size_t>(r)];
  detail::rank_page& peer = memory().rank(r);
  std::uint32_t const process = std::atomic_ref(peer.process).load(std::memory_order_acquire);
  if (watch.begun() || process == 0 || r == rank()) return;
  if (peer.process_namespace == memory().rank(rank()).process_namespace) watch.begin(static_cast<pid_t>(process));
}

TUTTI_INLINE shm::~shm() = default;

}  // namespace tutti
