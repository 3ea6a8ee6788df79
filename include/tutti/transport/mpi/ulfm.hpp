// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an MPI with fault tolerance (ULFM, User Level Failure Mitigation) does when ranks end: Open MPI 5 or later, under
// `mpirun --with-ft ulfm`. Everywhere else ranks that end take the job with them.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <cstddef>
#include <numeric>
#include <vector>

namespace tutti::detail {

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI

// Open MPI has the calls though fault tolerance may be off, and says so in a variable of MPI_T alone.
[[gnu::cold]] inline bool mpi_survives() {
  static bool const on = [] {
    int level = 0, index = 0, count = 0, value = 0;
    bool found = false;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return false;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index("mpi_ft_enable", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
      found = MPI_T_cvar_read(handle, &value) == MPI_SUCCESS;
      MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
    return found && (value & 0xff) != 0;  // it writes one byte
  }();
  return on;
}

inline constexpr int mpi_rank_lost = MPIX_ERR_PROC_FAILED;

// Whether a call has failed because a rank has ended, or because another has heard of that and called mpi_revoke.
[[gnu::cold]] inline bool mpi_is_loss(int code) noexcept {
  if (code == MPI_SUCCESS) return false;
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED;
}

// Who has ended. Probes of any source go on without them.
[[gnu::cold]] inline std::vector<int> mpi_lost(MPI_Comm comm) noexcept {
  MPI_Group lost = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  int count = 0;
  if (MPIX_Comm_get_failed(comm, &lost) != MPI_SUCCESS) return {};
  MPI_Group_size(lost, &count);
  std::vector<int> theirs(static_cast<std::size_t>(count)), out(theirs);
  std::iota(theirs.begin(), theirs.end(), 0);
  MPI_Comm_group(comm, &all);
  if (count > 0) MPI_Group_translate_ranks(lost, count, theirs.data(), all, out.data());
  MPI_Group_free(&all);
  MPI_Group_free(&lost);
  int acknowledged = 0;
  MPIX_Comm_ack_failed(comm, count, &acknowledged);
  return out;
}

// Ends all calls of all ranks on this communicator, with an error.
[[gnu::cold]] inline void mpi_revoke(MPI_Comm comm) noexcept {
  if (comm != MPI_COMM_NULL) MPIX_Comm_revoke(comm);
}
// The error of calls on it, where it was revoked.
[[gnu::cold]] inline int mpi_revoked(MPI_Comm comm) noexcept {
  int revoked = 0;
  MPIX_Comm_is_revoked(comm, &revoked);
  return revoked != 0 ? MPIX_ERR_REVOKED : MPI_SUCCESS;
}

// Whether all ranks that are left say yes: the same at all, though ranks end meanwhile and the communicator was revoked.
[[gnu::cold]] inline bool mpi_agree(MPI_Comm comm, bool yes) noexcept {
  int all = yes ? 1 : 0;
  MPIX_Comm_agree(comm, &all);  // whatever it says of ranks that have ended, the flag is the same
  return all != 0;
}

// A communicator of the ranks that have not ended, all of which call it.
[[gnu::cold]] inline int mpi_shrink(MPI_Comm comm, MPI_Comm* made) noexcept { return MPIX_Comm_shrink(comm, made); }
// The same for ranks of which others live and do not call it. A rank that ends in the middle may leave the others waiting.
[[gnu::cold]] inline int mpi_create_apart(MPI_Group group, char const* name, MPI_Comm* made) noexcept {
  return MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
}

#else

inline constexpr int mpi_rank_lost = MPI_ERR_OTHER;
[[gnu::cold]] inline bool mpi_survives() { return false; }
[[gnu::cold]] inline bool mpi_is_loss(int) noexcept { return false; }
[[gnu::cold]] inline std::vector<int> mpi_lost(MPI_Comm) noexcept { return {}; }
[[gnu::cold]] inline void mpi_revoke(MPI_Comm) noexcept {}
[[gnu::cold]] inline int mpi_revoked(MPI_Comm) noexcept { return MPI_SUCCESS; }
[[gnu::cold]] inline bool mpi_agree(MPI_Comm, bool yes) noexcept { return yes; }
[[gnu::cold]] inline int mpi_shrink(MPI_Comm, MPI_Comm*) noexcept { return MPI_ERR_OTHER; }
[[gnu::cold]] inline int mpi_create_apart(MPI_Group, char const*, MPI_Comm*) noexcept { return MPI_ERR_OTHER; }

#endif

// Receives a message from any source, if there is one. A receive that is posted ahead may fail with a message in it where a
// rank is lost (Open MPI 5.0.7); a probe only fails until somebody calls mpi_lost.
inline int mpi_receive_any(MPI_Comm comm, int tag, void* to, int bytes, int& arrived, MPI_Status& status) noexcept {
  int const code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &arrived, &status);
  if (code != MPI_SUCCESS) arrived = 0;
  if (arrived == 0) return code;
  return MPI_Recv(to, bytes, MPI_BYTE, status.MPI_SOURCE, tag, comm, &status);
}

}  // namespace tutti::detail
