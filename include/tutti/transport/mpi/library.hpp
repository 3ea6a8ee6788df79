// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The MPI library: error codes as exceptions, initialisation, and the properties that the transport depends on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mpi.h>
#include <string>
#include <string_view>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/mpi/at_finalize.hpp"
#include "tutti/transport/mpi/ulfm.hpp"
#include "tutti/transport/system/call_watchdog.hpp"
#include "tutti/transport/system/unread_output.hpp"

namespace tutti::detail {

static_assert(MPI_VERSION >= 3, "tutti needs MPI 3 or later");

// The eager limit between ranks of one machine, less a few words of header: Open MPI 4.1 sends up to 4,032 bytes at
// once, MPICH 4.0 a little over 8 KiB. Over a network the limit is higher.
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
  if (code == MPI_SUCCESS) return;
  bool const loss = mpi_is_loss(code);
  throw error({.code = loss ? error_code::rank_lost : error_code::system,
               .what = mpi_text(call, code),
               .way_out = loss ? "check the output of the rank that ended" : "check the output of the MPI library"});
}

inline bool mpi_is_finalized() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

// After a loss, an MPI may wait for ever for the rank that has ended.
[[gnu::cold]] inline void finalize_mpi() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  watched_calls last;
  if (call_watchdog::saw_loss && !mpi_survives())
    last.start(rank, call_watchdog::limit_after_loss, call_watchdog::way_out_after_loss);
  call_note::scope const inside(last.notes[watched_calls::collective], "MPI_Finalize");
  MPI_Finalize();
}

// Ends all processes of the job, unless MPI_Finalize has returned. MPICH would end only this one if the communicator were another.
[[gnu::cold]] inline void abort_mpi(int code) noexcept {
  wait_for_reader_of_output();
  if (!mpi_is_finalized()) MPI_Abort(MPI_COMM_WORLD, code);
}

// The thread support of the MPI (MPI_THREAD_SINGLE ...), or mpi_closed from the beginning of MPI_Finalize on.
inline std::atomic<int> mpi_thread_level{MPI_THREAD_SINGLE};
inline constexpr int mpi_closed = -1;
static_assert(mpi_closed < MPI_THREAD_SINGLE);

// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF (MPI 4.1, 11.2.4), so a call that follows finds out without asking the
// MPI, which would cost every call a function call.
[[gnu::cold]] inline void note_mpi() {
  static bool const noted = [] {
    int level = MPI_THREAD_SINGLE, key = MPI_KEYVAL_INVALID;
    expect_success(MPI_Query_thread(&level), "MPI_Query_thread");
    mpi_thread_level = level;
    auto const close = [](MPI_Comm, int, void*, void*) -> int {  // MPI_SUCCESS may be an enumerator
      at_finalize::run();
      mpi_thread_level = mpi_closed;
      return MPI_SUCCESS;
    };
    expect_success(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close, &key, nullptr), "MPI_Comm_create_keyval");
    expect_success(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
    expect_success(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");  // freed once the attribute is deleted
    return true;
  }();
  static_cast<void>(noted);
}

// Initialises MPI if the program has not; MPI is then finalized when the process exits.
[[gnu::cold]] inline void start_mpi() {
  if (mpi_is_finalized())
    throw error({.code = error_code::bad_argument,
                 .what = "MPI has already been finalized",
                 .way_out = "create communicators before MPI_Finalize"});
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  expect_success(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  static owning_process const here;
  std::atexit([] {
    if (here.is_this() && !mpi_is_finalized()) finalize_mpi();
  });
}

// Whether the MPI reports, once initialised, that it accepts device memory.
inline bool mpi_reports_device_memory_support() {
#if (defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA)
  return MPIX_Query_cuda_support() != 0;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS && supported != 0;
#else
  return false;
#endif
}
// TUTTI_CUDA_AWARE=0 or 1 overrides the report.
[[gnu::cold]] inline bool mpi_accepts_device_memory() {
  if (environment_variable("TUTTI_CUDA_AWARE").empty()) return mpi_reports_device_memory_support();
  return environment_flag("TUTTI_CUDA_AWARE", false,
                          "1 if the MPI accepts device memory, 0 if not, or unset it to ask the MPI");
}

}  // namespace tutti::detail
