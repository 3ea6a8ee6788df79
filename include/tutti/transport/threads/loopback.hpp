// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are threads of one process: the reference transport, and what ThreadSanitizer can see.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/shared_memory/cores.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"

namespace tutti {

class loopback : public detail::mailbox {
 public:
  static constexpr std::string_view name = "loopback";
  static constexpr bool memory_outlives_owner = false;  // peers read the caller's own arrays

  // The memory that the ranks of a group share; make one, then one loopback a thread.
  class hub {
   public:
    hub(int ranks, int tracks) : ranks_(ranks), tracks_(tracks), memory_(nullptr, ranks, tracks, 0) {
      std::size_t const bytes = memory_.bytes();
      void* const base =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (base == MAP_FAILED)
        throw error({.code = error_code::system,
                     .what = "no address space for " + std::to_string(ranks) + " ranks: mmap of " +
                             std::to_string(bytes) + " bytes failed, " + std::strerror(errno),
                     .way_out = "use fewer ranks, or raise the limit of virtual memory (ulimit -v)"});
      memory_ = detail::segment(static_cast<std::byte*>(base), ranks, tracks, 0);
      detail::note_cores(memory_.rank(0));
    }
    hub(hub const&) = delete;
    hub& operator=(hub const&) = delete;
    ~hub() { ::munmap(memory_.base(), memory_.bytes()); }

    int ranks() const { return ranks_; }
    int tracks() const { return tracks_; }
    detail::segment const& memory() const { return memory_; }

    // A group of these ranks that is being made.
    struct meeting {
      std::vector<int> members;
      std::shared_ptr<hub> made;
      std::vector<int> absent = members;  // those to come; the outer hub's guard is for it
      std::atomic<bool> complete = false;
    };

    std::shared_ptr<meeting> come(std::vector<int> const& members, int rank) {
      std::scoped_lock const lock(guard_);
      std::shared_ptr<meeting>& known = meetings_[members];
      if (!known) known.reset(new meeting{members, std::make_shared<hub>(int(members.size()), tracks_)});
      std::shared_ptr<meeting> const out = known;
      std::erase(out->absent, rank);
      if (!out->absent.empty()) return out;
      meetings_.erase(members);
      out->complete = true;
      return out;
    }
    std::vector<int> absent(meeting const& m) {
      std::scoped_lock const lock(guard_);
      return m.absent;
    }
    // This rank waits no more. Who did not come: nobody, where all had come by then.
    std::vector<int> give_up(meeting& m, int rank) {
      std::scoped_lock const lock(guard_);
      if (m.complete) return {};
      std::vector<int> const out = m.absent;
      m.absent.push_back(rank);
      if (m.absent.size() == m.members.size()) meetings_.erase(m.members);
      return out;
    }

   private:
    int ranks_;
    int tracks_;
    detail::segment memory_;
    std::mutex guard_;
    std::map<std::vector<int>, std::shared_ptr<meeting>> meetings_;
  };

  loopback(std::shared_ptr<hub> shared, int rank)
      : detail::mailbox(rank, shared->ranks(), shared->tracks()), hub_(std::move(shared)) {
    detail::segment const& memory = hub_->memory();
    attach(memory, hub_->tracks(), 0, std::numeric_limits<std::uintptr_t>::max(), 0,
           detail::patience_for(memory, ranks()));
    allow_pulls(true);  // all memory is within reach, so nothing is ever fetched
    memory.rank(rank).status.store(detail::presence::joined, std::memory_order_release);
  }

  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{detail::page}));
  }
  void deallocate(std::byte* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t{detail::page});
  }

  int fetch(int, std::byte*, std::byte const*, std::size_t) noexcept { return ENOSYS; }

  // A thread cannot vanish: it leaves.
  bool lost(int) const noexcept { return false; }

  // A transport for these ranks, in this order, for ever apart from this one. Each of them calls it, with the same list;
  // it returns when all have. Throws error: timeout with the ranks that did not come, rank_lost where one of them has left.
  [[gnu::cold]] std::unique_ptr<loopback> subgroup(std::vector<int> const& members, detail::deadline until) {
    auto const meeting = hub_->come(members, rank());
    wake_all();
    auto const look = [&] { return meeting->complete ? detail::progress::done : detail::progress::stuck; };
    int gone = -1;
    bool const met = detail::wait_until_done(look, waits(), until, [&](auto const& ready) {
      nap(ready);
      for (int const peer : hub_->absent(*meeting))
        if (memory().rank(peer).status.load(std::memory_order_acquire) == detail::presence::left) gone = peer;
      return gone < 0;
    });
    if (!met)
      if (auto const absent = hub_->give_up(*meeting, rank()); !absent.empty())
        throw gone < 0 ? detail::ranks_absent(rank(), absent, detail::members_must_join)
                       : detail::rank_gone(rank(), gone);
    int const own = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    return std::make_unique<loopback>(meeting->made, own);
  }

 private:
  std::shared_ptr<hub> hub_;
};

static_assert(detail::maps_memory<loopback> && detail::shares_packets<loopback> && detail::divisible<loopback> &&
              detail::holds_votes<loopback>);

}  // namespace tutti
