// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The MPI library as the transport sees it: its errors as exceptions, its beginning and end, a communicator of our own.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <string>
#include <string_view>
#include <thread>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"

namespace tutti {

static_assert(MPI_VERSION >= 3, "tutti needs MPI 3 or later");

// What is sent at once between ranks of a machine, with a few words before it: by Open MPI 4.1 up to 4,032 bytes, by MPICH
// 4.0 a little above 8 KiB. Through a network it is more.
#ifdef OPEN_MPI
inline constexpr std::size_t mpi_eager_bytes = 3968;
#else
inline constexpr std::size_t mpi_eager_bytes = 8192;
#endif

[[gnu::cold]] inline std::string mpi_text(char const* call, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return join({call, " failed: ", std::string_view(text, static_cast<std::size_t>(length))});
}

inline void expect_success(int code, char const* call) {
  if (code != MPI_SUCCESS)
    throw error({.code = error_code::system, .what = mpi_text(call, code), .way_out = "see what else the MPI says"});
}

inline bool mpi_is_finalized() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

// Initialises MPI where the program has not; then it is finalized when the process exits.
[[gnu::cold]] inline void start_mpi() {
  if (mpi_is_finalized())
    throw error({.code = error_code::bad_argument,
                 .what = "MPI is finalized already",
                 .way_out = "make communicators before MPI_Finalize, and none after it"});
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  expect_success(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  std::atexit([] {
    if (!mpi_is_finalized()) MPI_Finalize();
  });
}

// Whether the MPI was built for memory of a GPU, as far as it can say, once it is initialised.
inline bool mpi_says_it_takes_device_memory() {
#if (defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA)
  return MPIX_Query_cuda_support() != 0;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS && supported != 0;
#else
  return false;
#endif
}
// TUTTI_CUDA_AWARE=0 or 1 says it where that is not so.
[[gnu::cold]] inline bool mpi_takes_device_memory() {
  char const* const text = std::getenv("TUTTI_CUDA_AWARE");
  std::string_view const said = text != nullptr ? text : "";
  if (said.empty()) return mpi_says_it_takes_device_memory();
  if (said == "0" || said == "1") return said == "1";
  throw error({.code = error_code::bad_argument,
               .what = join({"TUTTI_CUDA_AWARE=\"", said, "\" is neither 0 nor 1"}),
               .way_out = "set it to 1 where the MPI takes memory of a GPU, to 0 where it does not, or leave it"});
}

// Whether a request has ended by then. It must outlive that, with all that it refers to, where it has not.
[[gnu::cold]] inline bool mpi_wait(MPI_Request& request, deadline until) {
  auto const poll = [&] {
    int done = 0;
    expect_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0 ? progress::done : progress::stuck;
  };
  return wait_until_done(poll, patience_sharing_cores, until, [](auto const&) {
    std::this_thread::sleep_for(nap_length);
    return true;
  });
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
      if (mpi_wait(copy->request, until)) return;
      static_cast<void>(copy.release());  // to which the MPI may still write
      throw error({.code = error_code::timeout,
                   .what = "not all ranks of the MPI communicator have come to make a communicator of it",
                   .way_out = "call it on all of them, or raise TUTTI_TIMEOUT"});
    };
    expect_success(MPI_Comm_idup(original, &copy->made, &copy->request), "MPI_Comm_idup");
    complete();
    // Who comes last has a copy although others may have given up: all are known to be here when they meet on it.
    expect_success(MPI_Ibarrier(copy->made, &copy->request), "MPI_Ibarrier");
    complete();
    own_ = copy->made;
    expect_success(MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
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

}  // namespace tutti
