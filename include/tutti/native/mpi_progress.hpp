// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective of the MPI that has begun, as work for begun_call::drive.
#pragma once

#include <chrono>
#include <mpi.h>
#include <sched.h>

#include "tutti/core/wait.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/transport/mpi/mpi.hpp"

namespace tutti::detail {

// The MPI carries out its collective only while ranks test it, so this rank does not sleep, as the MPI itself would not. It looks
// for the loss of a rank each millisecond. Then, and for a moment now and then, it reports no progress: the caller looks for faults
// and its deadline only while there is none.
class mpi_progress {
 public:
  mpi_progress(mpi& transport, char const* call) noexcept : transport_(transport), call_(call) {}
  mpi_progress(mpi_progress const&) = delete;
  mpi_progress& operator=(mpi_progress const&) = delete;

  MPI_Request* request() noexcept { return &request_; }
  void begin(int code) noexcept { failed_ = !transport_.expect(code, call_); }

  progress poll() noexcept {
    if (ended()) return progress::done;
    if (failed_) return progress::stuck;
    if (transport_.crowded() || ++polls_ % 64 == 0) ::sched_yield();
    auto const now = clock::now();
    if (now >= look_) {
      look_ = now + nap_length;
      trouble_ = transport_.learns_of_trouble();
    }
    if (trouble_) return progress::stuck;
    if (now >= pause_ + pause_length) pause_ = now + time_between_pauses;
    return now < pause_ ? progress::moved : progress::stuck;
  }
  protocol_violation const& found() const noexcept { return nothing_; }

  // For a caller that gives up. What the other ranks have sent, or send while they give up too, may still arrive; then the MPI must
  // not be about to use the arrays. Returns whether the collective has ended; if not, it waits for a rank that is lost or late.
  [[gnu::cold]] bool settle() noexcept {
    auto const until = deadline::after(transport_.anyone_lost() ? short_time : long_time);
    while (!failed_ && !ended() && !until.passed()) ::sched_yield();
    return !failed_ && request_ == MPI_REQUEST_NULL;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause_length{4}, time_between_pauses{96}, short_time{100}, long_time{1000};

  bool ended() noexcept {
    int done = 0;
    failed_ = failed_ || !transport_.expect(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), call_);
    return !failed_ && done != 0;
  }

  mpi& transport_;
  char const* call_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool failed_ = false;   // a fault has been raised
  bool trouble_ = false;  // there is a fault, or will be
  unsigned polls_ = 0;
  clock::time_point look_ = clock::now() + nap_length, pause_ = clock::now() + time_between_pauses;
  protocol_violation nothing_{};
};

}  // namespace tutti::detail
