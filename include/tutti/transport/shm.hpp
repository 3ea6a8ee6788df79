// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are processes of one machine. Their memory is an anonymous file without a name: nothing to guess, nothing that
// stays behind, however the processes end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/cores.hpp"
#include "tutti/transport/descriptor.hpp"
#include "tutti/transport/heap.hpp"
#include "tutti/transport/mailbox.hpp"
#include "tutti/transport/rendezvous.hpp"

namespace tutti {

class shm : public mailbox {
 public:
  static constexpr std::string_view name = "shm";
  static constexpr bool memory_stays = true;  // mapped as long as anybody reads it

  // The file of a group of ranks, to be handed to all of them: inherited, or sent over a socket. 0600, in no directory,
  // and of this size for ever: whoever holds it cannot pull memory away from under the others.
  [[gnu::cold]] static descriptor create(int ranks, int tracks, std::size_t heap_space = half_of_all_addresses) {
    descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ::fchmod(file.get(), 0600) != 0)
      throw_system("memfd_create failed", "tutti's shared memory needs Linux 3.17 or later");
    std::size_t const bytes = segment(nullptr, ranks, tracks, heap_bytes(ranks, heap_space)).bytes();
    // Where the limit of file sizes is lower, ftruncate ends the process by a signal.
    rlimit limit{};
    bool const allowed = ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
    if (!allowed || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
      throw_system("cannot size shared memory of " + std::to_string(bytes) + " bytes",
                   "set TUTTI_HEAP to fewer bytes, or raise the limit of file sizes (ulimit -f)",
                   allowed ? errno : EFBIG);
    if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      throw_system("cannot seal the size of the shared memory", "");
    std::uint64_t identity = 0;
    if (::getrandom(&identity, sizeof identity, 0) != sizeof identity ||
        ::pwrite(file.get(), &identity, sizeof identity, offsetof(segment_header, identity)) != sizeof identity)
      throw_system("cannot mark the shared memory", "");
    return file;
  }

  // One rank, alone: no segment at all.
  shm() : mailbox(0, 1, 0), heap_(nullptr, 0) {}

  // Joins the group; returns when all ranks have. The deadline is for the slowest of them.
  // Throws error: timeout with the ranks that did not come, rank_lost where one of them ended before, system.
  shm(descriptor const& file, int rank, int ranks, int tracks, deadline until)
      : shm(file, rank, ranks, tracks, until, {}, std::vector<watch>(static_cast<std::size_t>(ranks))) {
    populate();
  }
  shm(shm const&) = delete;
  shm& operator=(shm const&) = delete;

  // Memory that every rank can read in place.
  std::byte* allocate(std::size_t bytes) {
    if (ranks() == 1) return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{page}));
    std::byte* const memory = heap_.allocate(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    // Pages that are touched one by one cost 1.6 us each; in one go, 0.12.
    if (bytes >= huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
    ::madvise(memory, bytes, populate_write);
    return memory;
  }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept {
    if (ranks() == 1) ::operator delete(memory, std::align_val_t{page});
    else if (is_the_rank()) heap_.deallocate(memory, bytes);
  }

  // Whether the process of a peer has ended, orderly or not.
  bool lost(int peer) const noexcept {
    watch const& w = watches_[static_cast<std::size_t>(peer)];
    if (!w.process) return w.ended;
    pollfd ended{w.process->get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) > 0;
  }

  void leave() noexcept {
    if (is_the_rank()) mailbox::leave();
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
  [[gnu::cold]] std::unique_ptr<shm> subgroup(std::vector<int> const& members, deadline until,
                                              std::uint64_t number = 0) {
    if (members.size() == 1) return std::make_unique<shm>();
    int const ranks = static_cast<int>(members.size());
    int const own = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    std::string job = "group-" + std::to_string(memory().header().identity) + "-" + std::to_string(number);
    for (int const m : members) job += "-" + std::to_string(m);
    auto const gone = [&](int r) {
      int const peer = members[static_cast<std::size_t>(r)];
      return status(peer) == presence::left || lost(peer);
    };
    acquaintance const others{members, gone, call_subgroup_too};
    rendezvous meeting(job, own, ranks, until, others);
    descriptor const file = meeting.meet([&] { return create(ranks, tracks_, group_heap_space); });
    std::vector<watch> watches;
    watches.reserve(members.size());
    for (int const m : members) watches.push_back(watches_[static_cast<std::size_t>(m)]);
    return std::unique_ptr<shm>(new shm(file, own, ranks, tracks_, until, others, std::move(watches)));
  }

 private:
  // A handle on the process of a peer, which groups share.
  struct watch {
    std::shared_ptr<descriptor const> process;
    bool ended = false;  // there was nothing left to get a handle on
    bool begun = false;
  };

  // Joins the group without touching more of its memory than that takes.
  shm(descriptor const& file, int rank, int ranks, int tracks, deadline until, acquaintance const& others,
      std::vector<watch> watches)
      : mailbox(rank, ranks, tracks),
        tracks_(tracks),
        mapping_(introduce(file, rank, ranks, tracks)),
        heap_(nullptr, 0),
        watches_(std::move(watches)) {
    segment const memory(mapping_.base, ranks, tracks, heap_bytes_of(mapping_.bytes, ranks, tracks));
    heap_ = heap(memory.heap(rank), memory.heap_bytes());
    auto const base = reinterpret_cast<std::uintptr_t>(mapping_.base);
    rank_page& self = memory.rank(rank);
    note_cores(self);
    self.probe = reinterpret_cast<std::uintptr_t>(&process_);
    attach(memory, tracks, reinterpret_cast<std::uintptr_t>(memory.heap(0)), base + memory.bytes(), base,
           patience_sharing_cores);
    self.status.store(presence::joined, std::memory_order_release);
    ring_all();
    try {
      meet([&](int r) { return status(r) != presence::absent; }, until, others);
      for (int r = 0; r < ranks; ++r) begin_watch(r);
      self.can_fetch.store(try_to_fetch() ? fetching::works : fetching::refused, std::memory_order_release);
      ring_all();
      meet([&](int r) { return fetches(r) != fetching::untried; }, until, others);
    } catch (...) {
      leave();
      throw;
    }
    bool all_fetch = true;
    for (int r = 0; r < ranks; ++r) all_fetch &= fetches(r) == fetching::works;
    allow_pulls(all_fetch);
    attach(memory, tracks, reinterpret_cast<std::uintptr_t>(memory.heap(0)), base + memory.bytes(), base,
           patience_for(memory, ranks));
  }

  // A process that the program has forked has this object too: what it destroys must not touch the rank's memory.
  bool is_the_rank() const noexcept { return memory().rank(rank()).process == static_cast<std::uint32_t>(::getpid()); }

  struct mapping {
    std::byte* base = nullptr;
    std::size_t bytes = 0;

    mapping() = default;
    mapping(std::byte* b, std::size_t n) : base(b), bytes(n) {}
    mapping(mapping&& other) noexcept : base(std::exchange(other.base, nullptr)), bytes(other.bytes) {}
    mapping& operator=(mapping&&) = delete;
    ~mapping() {
      if (base != nullptr) ::munmap(base, bytes);
    }
  };

  // Address space for what comm.allocate may hand out at a rank, of `space` for all, whose heaps every rank maps; memory
  // is taken only when it is touched.
  [[gnu::cold]] static std::size_t heap_bytes(int ranks, std::size_t space) {
    if (char const* const text = std::getenv("TUTTI_HEAP")) {
      char* end = nullptr;
      unsigned long long const bytes = std::strtoull(text, &end, 10);
      if (end == text || *end != '\0')
        throw error({.code = error_code::bad_argument,
                     .what = std::string("TUTTI_HEAP=\"") + text + "\" is not a number of bytes",
                     .way_out = "set it to the most memory that a rank will ask of comm.allocate, e.g. 1073741824"});
      return (static_cast<std::size_t>(bytes) + page - 1) / page * page;
    }
    std::size_t const machine =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::size_t const share = space / static_cast<std::size_t>(ranks) / page * page;
    return std::min(machine, share);
  }
  // What the creator has chosen, whatever this rank's environment says.
  static std::size_t heap_bytes_of(std::size_t file_bytes, int ranks, int tracks) {
    return (file_bytes - segment(nullptr, ranks, tracks, 0).bytes()) / static_cast<std::size_t>(ranks);
  }

  // Writes down who this rank is before it asks for the address space of all: a process that is refused it will end, and
  // the others learn that at once.
  [[gnu::cold]] static mapping introduce(descriptor const& file, int rank, int ranks, int tracks) {
    expect_file_for(file, ranks, tracks);
    mapping const front = map(file, segment(nullptr, ranks, 0, 0).bytes());
    rank_page& self = segment(front.base, ranks, 0, 0).rank(rank);
    self.process_namespace = process_namespace();
    std::atomic_ref(self.process).store(static_cast<std::uint32_t>(::getpid()), std::memory_order_release);
    try {
      struct stat info{};
      ::fstat(file.get(), &info);
      return map(file, static_cast<std::size_t>(info.st_size));
    } catch (...) {
      self.status.store(presence::left, std::memory_order_release);
      throw;
    }
  }

  [[gnu::cold]] static void expect_file_for(descriptor const& file, int ranks, int tracks) {
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) throw_system("cannot read the size of the shared memory", "");
    if (info.st_uid != ::geteuid())
      throw error({.code = error_code::system,
                   .what = "the shared memory belongs to user " + std::to_string(info.st_uid) + ", not to this one (" +
                           std::to_string(::geteuid()) + ")",
                   .way_out = "start all ranks as one user"});
    if (static_cast<std::size_t>(info.st_size) < segment(nullptr, ranks, tracks, 0).bytes())
      throw error({.code = error_code::mismatch,
                   .what = "the shared memory was made for fewer ranks than " + std::to_string(ranks),
                   .way_out = "start all ranks with the same number of ranks and the same tutti"});
  }

  [[gnu::cold]] static mapping map(descriptor const& file, std::size_t bytes) {
    void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (base == MAP_FAILED)
      throw_system("cannot map " + std::to_string(bytes) + " bytes of shared memory",
                   "set TUTTI_HEAP to fewer bytes, or raise the limit of virtual memory (ulimit -v)");
    ::madvise(base, bytes, MADV_DONTDUMP);
    return {static_cast<std::byte*>(base), bytes};
  }

  // The pages that every call would touch for the first time one by one. Where ranks are many, their channels are too, and
  // most are never used.
  void populate() noexcept {
    if (ranks() > 8) return;
    segment const& m = memory();
    for (int r = 0; r < ranks(); ++r) {
      ::madvise(&m.rank(r), sizeof(rank_page), populate_write);
      for (int t = 0; t < populated_tracks && r != rank(); ++t) {
        ::madvise(&m.between(rank(), r, t), m.channel_bytes(t), populate_write);
        ::madvise(&m.between(r, rank(), t), m.channel_bytes(t), populate_write);
      }
    }
  }

  fetching fetches(int r) const noexcept { return memory().rank(r).can_fetch.load(std::memory_order_acquire); }

  // Whether the system lets this rank read its peers' private memory (ptrace_scope, seccomp, containers).
  [[gnu::cold]] bool try_to_fetch() noexcept {
    for (int r = 0; r < ranks(); ++r) {
      rank_page const& peer = memory().rank(r);
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
  [[gnu::cold]] void meet(Here const& here, deadline until, acquaintance const& others) {
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
    auto const look = [&] { return all_here() ? progress::done : progress::stuck; };
    bool const met = wait_until_done(look, waits(), until, [&](auto const& ready) {
      nap(ready);
      for (int r = 0; r < ranks(); ++r) {
        begin_watch(r);
        if (status(r) != presence::left && !lost(r)) continue;
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
    if (!met) throw ranks_absent(name_of(rank()), absent(), others.way_out);
  }

  presence status(int r) const noexcept { return memory().rank(r).status.load(std::memory_order_acquire); }

  // As soon as the peer has said who it is.
  [[gnu::cold]] void begin_watch(int r) {
    watch& w = watches_[static_cast<std::size_t>(r)];
    rank_page& peer = memory().rank(r);
    std::uint32_t const process = std::atomic_ref(peer.process).load(std::memory_order_acquire);
    if (w.begun || process == 0 || r == rank()) return;
    w.begun = true;
    if (peer.process_namespace != memory().rank(rank()).process_namespace) return;
    descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (handle) {
      w.process = std::make_shared<descriptor>(std::move(handle));
      return;
    }
    w.ended = errno == ESRCH;
    if (errno == EMFILE || errno == ENFILE)
      throw_system("cannot watch the processes of " + std::to_string(ranks()) + " ranks",
                   "raise the limit of open files (ulimit -n)");
  }

  static constexpr std::size_t half_of_all_addresses = std::size_t{1} << 46;
  static constexpr std::size_t group_heap_space = std::size_t{1} << 38;  // for 256 groups in the other half
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static constexpr int populate_write = 23;   // MADV_POPULATE_WRITE, of Linux 5.14; older ones refuse it without harm
  static constexpr int populated_tracks = 2;  // those of two phases, or of two lanes

  std::uint32_t process_ = static_cast<std::uint32_t>(::getpid());
  int tracks_ = 0;
  mapping mapping_;
  heap heap_;
  std::vector<watch> watches_;
};

static_assert(maps_memory<shm> && shows_packets<shm> && divisible<shm>);

}  // namespace tutti
