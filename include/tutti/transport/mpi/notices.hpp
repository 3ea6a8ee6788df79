// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last notices of all ranks over MPI, which threads read under a lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/notice_state.hpp"
#include "tutti/transport/system/call_watchdog.hpp"

namespace tutti::detail {

// Copies share the notices.
class mpi_notices {
 public:
  std::uint64_t sequence() const noexcept { return state_->called.load(std::memory_order_relaxed); }

  // Receives notices, and sends those that were delayed.
  void listen() noexcept {
    auto const lock = locked();
    state_->listen();
  }
  bool left(int rank) const noexcept { return last_notice(rank, &notice::left); }
  // Whether its process has ended, as far as the MPI or the system tells.
  bool lost(int rank) const noexcept {
    auto const lock = locked();
    return state_->peers[static_cast<std::size_t>(rank)].lost;
  }

 protected:
  using notice = mpi_notice_state::notice;
  using peer = mpi_notice_state::peer;
  using known_name = mpi_notice_state::known_name;

  explicit mpi_notices(std::shared_ptr<mpi_notice_state> all) : state_(std::move(all)) {}

  struct section {
    std::lock_guard<std::mutex> const alone;
    call_note::scope const inside;
  };
  section locked() const noexcept {
    return {std::lock_guard(state_->busy), {state_->inside_mpi.notes[watched_calls::notices], "notices"}};
  }
  // Whether a peer gets the fault that this rank has raised, if any, even if this rank does not call the MPI again.
  bool is_alarmed(int rank) const noexcept {
    auto const lock = locked();
    return state_->peers[static_cast<std::size_t>(rank)].alarm.idle();
  }
  // The lowest rank with a fault, or the number of ranks.
  int first_finder() const noexcept {
    auto const lock = locked();
    int r = 0;
    while (r < state_->ranks() && state_->by(r).fault_code == mpi_notice_state::no_fault) ++r;
    return r;
  }
  // A member of the last notice of a rank.
  template <class Part>
  Part last_notice(int rank, Part notice::* part) const noexcept {
    auto const lock = locked();
    return state_->by(rank).*part;
  }

  // Polls until enough(rank) for all peers, or for `limit`.
  template <class Enough>
  void listen_until(Enough&& enough, std::chrono::nanoseconds limit) noexcept {
    auto const look = [&] {
      listen();
      for (int r = 0; r < state_->ranks(); ++r)
        if (r != state_->rank && !enough(r)) return progress::stuck;
      return progress::done;
    };
    wait_until_done(look, patience_sharing_cores, deadline::after(limit), sleep_for(nap_length));
  }

  std::shared_ptr<mpi_notice_state> state_;
};

}  // namespace tutti::detail
