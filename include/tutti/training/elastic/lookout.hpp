// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread that watches whether ranks keep others waiting.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/core/stoppable_thread.hpp"

namespace tutti::detail {

// The heartbeat of a rank is the number of its last call, which is on the notice board. A rank is late while another has begun
// a later call; one that has been late for `after` is suspected, and so is one whose process is stopped. Ranks whose boards are
// known from messages alone (over MPI) are not watched.
template <class Transport>
class lookout {
 public:
  // `say(rank, suspected)` is called by the thread, when that changes. The communicator must outlive this.
  lookout(communicator<Transport>& comm, std::chrono::nanoseconds after, std::function<void(int, bool)> say)
      : comm_(comm), after_(after), say_(std::move(say)), beats_(comm.activity().size()) {
    if (beats_.size() > 1) thread_.start([this] { watch(); });
  }
  lookout(lookout const&) = delete;
  lookout& operator=(lookout const&) = delete;

  // Ends the watch. A rank that has caught up since the thread last looked is suspected no longer.
  void end() {
    if (!thread_.runs()) return;
    thread_.end();
    look();
  }

 private:
  using clock = std::chrono::steady_clock;

  struct beat {
    std::uint64_t last = 0;
    clock::time_point late_since{};
    bool late = false, suspected = false;
  };

  void watch() {
    while (thread_.rest(after_ / 4)) look();
  }

  void look() {
    std::vector<rank_activity> const all = comm_.activity();
    std::uint64_t const latest = std::ranges::max(all, {}, &rank_activity::calls).calls;
    auto const now = clock::now();
    for (std::size_t r = 0; r < all.size(); ++r) {
      beat& one = beats_[r];
      int const rank = static_cast<int>(r);
      if (rank == comm_.rank()) continue;
      bool const late = all[r].calls < latest;
      if (!one.late || all[r].calls != one.last) one.late_since = now;
      one.late = late;
      one.last = all[r].calls;
      bool const suspected = all[r].stopped || (late && now - one.late_since >= after_);
      if (suspected != one.suspected) say_(rank, suspected);
      one.suspected = suspected;
    }
  }

  communicator<Transport> const& comm_;
  std::chrono::nanoseconds after_;
  std::function<void(int, bool)> say_;
  std::vector<beat> beats_;  // by rank
  stoppable_thread thread_;  // last, so that it ends first
};

// Ends the watch together with a call, even if that throws.
template <class Transport>
struct watch_during_call {
  std::optional<lookout<Transport>>& watch;
  ~watch_during_call() { watch.reset(); }
};

}  // namespace tutti::detail
