// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are threads of one process: the reference transport, and what ThreadSanitizer can see.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <sys/mman.h>

#include "tutti/core/error.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/cores.hpp"
#include "tutti/transport/mailbox.hpp"

namespace tutti {

class loopback : public mailbox {
 public:
  static constexpr std::string_view name = "loopback";
  static constexpr bool memory_stays = false;  // peers read the caller's own arrays

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
      memory_ = segment(static_cast<std::byte*>(base), ranks, tracks, 0);
      note_cores(memory_.rank(0));
    }
    hub(hub const&) = delete;
    hub& operator=(hub const&) = delete;
    ~hub() { ::munmap(memory_.base(), memory_.bytes()); }

    int ranks() const { return ranks_; }
    int tracks() const { return tracks_; }
    segment const& memory() const { return memory_; }

   private:
    int ranks_;
    int tracks_;
    segment memory_;
  };

  loopback(std::shared_ptr<hub> shared, int rank)
      : mailbox(rank, shared->ranks(), shared->tracks()), hub_(std::move(shared)) {
    segment const& memory = hub_->memory();
    attach(memory, hub_->tracks(), 0, std::numeric_limits<std::uintptr_t>::max(), 0, patience_for(memory, ranks()));
    allow_pulls(true);  // all memory is within reach, so nothing is ever fetched
    memory.rank(rank).status.store(presence::joined, std::memory_order_release);
  }

  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{page}));
  }
  void deallocate(std::byte* memory, std::size_t) noexcept { ::operator delete(memory, std::align_val_t{page}); }

  int fetch(int, std::byte*, std::byte const*, std::size_t) noexcept { return ENOSYS; }

  // A thread cannot vanish: it leaves.
  bool lost(int) const noexcept { return false; }

 private:
  std::shared_ptr<hub> hub_;
};

static_assert(maps_memory<loopback> && shows_packets<loopback>);

}  // namespace tutti
