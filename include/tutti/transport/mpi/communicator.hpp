// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An MPI communicator that tutti owns, and waits on it that have a deadline.
#pragma once

#include <exception>
#include <initializer_list>
#include <memory>
#include <mpi.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace tutti::detail {

// Waits for a request; false if the deadline passes first. Throws if a rank has revoked `whole` because another has ended. Calls
// abandon() if the request may still be active: the MPI may then still write to it and to the buffers that it refers to.
template <class Abandon>
[[gnu::cold]] bool mpi_wait(MPI_Request& request, countdown& until, MPI_Comm whole, Abandon&& abandon) {
  watched_calls watched;
  auto const poll = [&] {
    call_note::scope const inside(watched.notes[watched_calls::data], "MPI_Test");
    int done = 0;
    expect_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) expect_success(mpi_revoked(whole), "MPI_Test");
    return done != 0 ? progress::done : progress::stuck;
  };
  bool ended = false;
  try {
    int rank = 0;
    MPI_Comm_rank(whole, &rank);
    if (!mpi_survives()) watched.start(rank, call_watchdog::limit_of_test, call_watchdog::way_out_of_test);
    ended = wait_until_done(poll, patience_sharing_cores, until, sleep_for(nap_length));
  } catch (...) {
    abandon();
    throw;
  }
  if (!ended) abandon();
  return ended;
}

// Calls make() on all ranks of `whole`, which uses the communicators `used`. Even if ranks end meanwhile, it throws on all
// survivors or on none: a rank that fails revokes these communicators, which releases the ranks that wait in them.
template <class Make>
[[gnu::cold]] void mpi_together(MPI_Comm whole, std::initializer_list<MPI_Comm> used, Make&& make) {
  if (!mpi_survives()) return make();
  std::exception_ptr failed;
  try {
    make();
  } catch (...) {
    failed = std::current_exception();
    for (MPI_Comm const c : used) mpi_revoke(c);
  }
  bool const all = mpi_agree(whole, !failed);
  if (failed) std::rethrow_exception(failed);
  if (!all) expect_success(mpi_rank_lost, "creating a communicator");
}

// A communicator of tutti's own, so that its messages never match those of the program. Its error handler returns errors.
class mpi_communicator {
 public:
  // A duplicate, which all ranks of `original` make. Throws error: timeout if some do not, system.
  [[gnu::cold]] mpi_communicator(MPI_Comm original, countdown until) {
    struct copying {
      MPI_Comm made = MPI_COMM_NULL;
      MPI_Request request = MPI_REQUEST_NULL;
    };
    auto copy = std::make_unique<copying>();
    auto const complete = [&] {
      if (mpi_wait(copy->request, until, original, [&] { static_cast<void>(copy.release()); })) return;
      throw error(
          {.code = error_code::timeout,
           .what =
               "timed out: not all ranks of the MPI communicator have called to create a tutti communicator from it",
           .way_out = "create it on all of them, or raise TUTTI_TIMEOUT"});
    };
    expect_success(MPI_Comm_idup(original, &copy->made, &copy->request), "MPI_Comm_idup");
    complete();
    own_ = copy->made;
    expect_success(MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    // The last rank gets its duplicate even if others have given up, so a barrier on it confirms that all are here. If a rank
    // ends in this barrier, some ranks may have passed it; the next step then fails on all alike.
    try {
      expect_success(MPI_Ibarrier(own_, &copy->request), "MPI_Ibarrier");
      complete();
    } catch (error const& e) {
      if (!mpi_survives() || e.code() != error_code::rank_lost) throw;
    }
  }
  mpi_communicator() = default;
  // Takes ownership of `made`.
  static mpi_communicator adopt(MPI_Comm made) {
    mpi_communicator out;
    out.own_ = made;
    expect_success(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return out;
  }
  mpi_communicator(mpi_communicator&& other) noexcept : own_(std::exchange(other.own_, MPI_COMM_NULL)) {}
  mpi_communicator& operator=(mpi_communicator&& other) noexcept {
    std::swap(own_, other.own_);
    return *this;
  }
  ~mpi_communicator() {
    if (own_ != MPI_COMM_NULL && !mpi_is_finalized()) MPI_Comm_free(&own_);
  }

  // Gives up ownership without freeing it, because freeing needs all ranks.
  void abandon() noexcept { own_ = MPI_COMM_NULL; }

  MPI_Comm get() const noexcept { return own_; }
  int rank() const {
    int out = 0;
    expect_success(MPI_Comm_rank(own_, &out), "MPI_Comm_rank");
    return out;
  }
  int size() const {
    int out = 0;
    expect_success(MPI_Comm_size(own_, &out), "MPI_Comm_size");
    return out;
  }

 private:
  MPI_Comm own_ = MPI_COMM_NULL;
};

}  // namespace tutti::detail
