// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread that watches whether ranks keep others waiting.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// The heartbeat of a rank is the number of its last call, which is on the notice board. A rank is late while another has begun
// a later call; one that has been late for `after` is suspected, and so is one whose process is stopped. Ranks whose boards are
// known from messages alone (over MPI) are not watched.
template <class Transport>
class lookout {
 public:
  static constexpr bool watches = !queries_peers<Transport>;

  // `say(rank, suspected)` is called by the thread, when that changes. The communicator must outlive this.
  lookout(communicator<Transport>& comm, std::chrono::nanoseconds after, std::function<void(int, bool)> say)
      : ranks_(&comm.engine()), after_(after), say_(std::move(say)), beats_(static_cast<std::size_t>(comm.size())) {
    if constexpr (watches)
      if (comm.size() > 1) thread_ = std::jthread([this](std::stop_token const& stop) { watch(stop); });
  }
  lookout(lookout const&) = delete;
  lookout& operator=(lookout const&) = delete;

  // Ends the watch. A rank that has caught up since the thread last looked is suspected no longer.
  void end() {
    if (!thread_.joinable()) return;
    thread_ = {};
    look();
  }

 private:
  using clock = std::chrono::steady_clock;

  struct beat {
    std::uint64_t last = 0;
    clock::time_point late_since{};
    bool late = false, suspected = false;
  };

  void watch(std::stop_token const& stop) {
    std::mutex alone;
    std::condition_variable_any asked_to_stop;
    std::unique_lock lock(alone);
    while (!asked_to_stop.wait_for(lock, stop, after_ / 4, [&] { return stop.stop_requested(); })) look();
  }

  void look() {
    auto const& board = ranks_->notices();
    std::uint64_t latest = 0;
    for (int r = 0; r < ranks_->ranks(); ++r) latest = std::max(latest, board.called(r));
    auto const now = clock::now();
    for (int r = 0; r < ranks_->ranks(); ++r) {
      beat& one = beats_[static_cast<std::size_t>(r)];
      if (r == ranks_->rank()) continue;
      std::uint64_t const called = board.called(r);
      bool const late = called < latest;
      if (!one.late || called != one.last) one.late_since = now;
      one.late = late;
      one.last = called;
      bool const suspected = is_stopped(r) || (late && now - one.late_since >= after_);
      if (suspected != one.suspected) say_(r, suspected);
      one.suspected = suspected;
    }
  }
  bool is_stopped(int r) const {
    if constexpr (sees_stops<Transport>) return ranks_->transport().stopped(r);
    else return false;
  }

  engine<Transport>* ranks_;
  std::chrono::nanoseconds after_;
  std::function<void(int, bool)> say_;
  std::vector<beat> beats_;  // by rank
  std::jthread thread_;      // last, so that it ends first
};

// Ends the watch together with a call, even if that throws.
template <class Transport>
struct watch_during_call {
  std::optional<lookout<Transport>>& watch;
  ~watch_during_call() { watch.reset(); }
};

}  // namespace tutti::detail
