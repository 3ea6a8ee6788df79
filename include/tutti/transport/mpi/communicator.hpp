// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A communicator of the MPI that is our own.
#pragma once

#include <exception>
#include <initializer_list>
#include <memory>
#include <mpi.h>
#include <thread>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace tutti::detail {

// Whether a request has ended by then. Throws where somebody has given up `whole`, because of a rank that has ended. Calls
// leave() where it may not have ended: the MPI may still write to it, and to all that it refers to.
template <class Leave>
[[gnu::cold]] bool mpi_wait(MPI_Request& request, deadline until, MPI_Comm whole, Leave&& leave) {
  auto const poll = [&] {
    int done = 0;
    expect_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) expect_success(mpi_revoked(whole), "MPI_Test");
    return done != 0 ? progress::done : progress::stuck;
  };
  bool ended = false;
  try {
    ended = wait_until_done(poll, patience_sharing_cores, until, [](auto const&) {
      std::this_thread::sleep_for(nap_length);
      return true;
    });
  } catch (...) {
    leave();
    throw;
  }
  if (!ended) leave();
  return ended;
}

// Calls make(), which all ranks of `whole` do and which uses communicators `used`: all of them throw or none, though ranks
// end meanwhile. Who fails lets go of those that wait in the communicators.
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
  if (!all) expect_success(mpi_rank_lost, "making a communicator");
}

// A copy of a communicator, so that no message of ours meets one of the program's. It returns errors.
class mpi_communicator {
 public:
  // All ranks of `original` call it. Throws error: timeout where not all have come, system.
  [[gnu::cold]] mpi_communicator(MPI_Comm original, deadline until) {
    struct copying {
      MPI_Comm made = MPI_COMM_NULL;
      MPI_Request request = MPI_REQUEST_NULL;
    };
    auto copy = std::make_unique<copying>();
    auto const complete = [&] {
      if (mpi_wait(copy->request, until, original, [&] { static_cast<void>(copy.release()); })) return;
      throw error({.code = error_code::timeout,
                   .what = "not all ranks of the MPI communicator have come to make a communicator of it",
                   .way_out = "call it on all of them, or raise TUTTI_TIMEOUT"});
    };
    expect_success(MPI_Comm_idup(original, &copy->made, &copy->request), "MPI_Comm_idup");
    complete();
    own_ = copy->made;
    expect_success(MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    // Who comes last has a copy although others may have given up: all are known to be here when they meet on it. A rank that
    // ends here may have been met by some; what comes next fails on all alike.
    try {
      expect_success(MPI_Ibarrier(own_, &copy->request), "MPI_Ibarrier");
      complete();
    } catch (error const& e) {
      if (!mpi_survives() || e.code() != error_code::rank_lost) throw;
    }
  }
  mpi_communicator() = default;
  // One that nobody else has.
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

  // Leaves it to the MPI, where not all ranks would come to free it.
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
