// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport between threads of one process: the reference implementation, and the one that ThreadSanitizer can
// check.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"

namespace tutti {

class loopback : public detail::mailbox {
 public:
  static constexpr std::string_view name = "loopback";
  static constexpr bool in_one_process = true;
  static constexpr bool memory_outlives_owner = false;  // peers read the caller's own arrays

  // The memory that the ranks of a group share. Create one, then one loopback for each thread.
  class hub {
   public:
    // `crowded`: see patience_for().
    hub(int ranks, int tracks, bool crowded = false);
    hub(hub const&) = delete;
    hub& operator=(hub const&) = delete;
    ~hub();

    int ranks() const { return ranks_; }
    int tracks() const { return tracks_; }
    bool crowded() const { return crowded_; }
    detail::segment const& memory() const { return memory_; }

    // A group that its members are creating.
    struct meeting {
      std::vector<int> members;
      std::shared_ptr<hub> made;
      std::vector<int> absent = members;  // members that have not arrived; guarded by the mutex of the outer hub
      std::atomic<bool> complete = false;
    };

    std::shared_ptr<meeting> come(std::vector<int> const& members, int rank, bool crowded);
    std::vector<int> absent(meeting const& m);
    // This rank stops waiting. Returns the members that did not arrive; none if the last has just arrived.
    std::vector<int> give_up(meeting& m, int rank);

   private:
    int ranks_;
    int tracks_;
    bool crowded_;
    detail::segment memory_;
    std::mutex guard_;
    std::vector<std::shared_ptr<meeting>> meetings_;
  };

  loopback(std::shared_ptr<hub> shared, int rank);

  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{detail::page}));
  }
  static void deallocate(std::byte* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t{detail::page});
  }

  int fetch(int, std::byte*, std::byte const*, std::size_t) noexcept { return ENOSYS; }

  // A thread cannot vanish; it can only leave.
  bool lost(int) const noexcept { return false; }

  // Creates an independent transport of these ranks, in this order. Each of them calls it with the same list; it
  // returns when all have. `others_live`: the ranks outside use their cores, too.
  // Throws error: timeout with the ranks that did not arrive, rank_lost if one of them has left. If one of them votes instead
  // (ballot.hpp): rank_left with a rank that has left, else revoked.
  [[gnu::cold]] std::unique_ptr<loopback> subgroup(std::vector<int> const& members, detail::countdown& until,
                                                   bool others_live = true);

 private:
  std::shared_ptr<hub> hub_;
};

static_assert(detail::maps_memory<loopback> && detail::shares_packets<loopback> && detail::divisible<loopback> &&
              detail::holds_votes<loopback>);

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/threads/loopback_impl.hpp"
#endif
