// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fault tolerance of the MPI by ULFM (User Level Failure Mitigation): Open MPI 5 or later under `mpirun --with-ft ulfm`. With
// any other MPI, the loss of a rank ends the job.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace tutti::detail {

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI

// Open MPI may be built with these calls and run without fault tolerance, which only a variable of MPI_T tells.
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
    return found && (value & 0xff) != 0;  // the call sets a single byte of it
  }();
  return on;
}

inline constexpr int mpi_rank_lost = MPIX_ERR_PROC_FAILED;

// Whether a call failed because a rank has ended, or because another rank found that and called mpi_revoke.
[[gnu::cold]] inline bool mpi_is_loss(int code) noexcept {
  if (code == MPI_SUCCESS) return false;
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED;
}

// Calls f(rank) for the ranks that have ended. Probes of any source work again after this call, without them.
template <class F>
[[gnu::cold]] void mpi_for_each_lost(MPI_Comm comm, F&& f) noexcept {
  MPI_Group lost = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  int count = 0;
  if (MPIX_Comm_get_failed(comm, &lost) != MPI_SUCCESS) return;
  MPI_Group_size(lost, &count);
  MPI_Comm_group(comm, &all);
  // One at a time, because a list of all would need memory, and a rank without any must learn of losses too.
  for (int i = 0, r = 0; i < count; ++i)
    if (MPI_Group_translate_ranks(lost, 1, &i, all, &r) == MPI_SUCCESS && r >= 0) f(r);
  MPI_Group_free(&all);
  MPI_Group_free(&lost);
  int acknowledged = 0;
  MPIX_Comm_ack_failed(comm, count, &acknowledged);
}

// Makes all calls on this communicator fail at all ranks. Not without fault tolerance: ranks then tell each other of the loss on the same
// communicator, and Open MPI 5 revokes it all the same.
[[gnu::cold]] inline void mpi_revoke(MPI_Comm comm) noexcept {
  if (comm != MPI_COMM_NULL && mpi_survives()) MPIX_Comm_revoke(comm);
}
// The error of calls on this communicator if it was revoked.
[[gnu::cold]] inline int mpi_revoked(MPI_Comm comm) noexcept {
  int revoked = 0;
  MPIX_Comm_is_revoked(comm, &revoked);
  return revoked != 0 ? MPIX_ERR_REVOKED : MPI_SUCCESS;
}

// Whether all survivors say yes: the same answer at all, even if ranks end meanwhile or the communicator was revoked.
[[gnu::cold]] inline bool mpi_agree(MPI_Comm comm, bool yes) noexcept {
  int all = yes ? 1 : 0;
  MPIX_Comm_agree(comm, &all);  // the flag agrees even where the code reports lost ranks
  return all != 0;
}

// Creates a communicator of the survivors, all of which must call it.
[[gnu::cold]] inline int mpi_shrink(MPI_Comm comm, MPI_Comm* made) noexcept { return MPIX_Comm_shrink(comm, made); }
// Creates a communicator of a group without needing other ranks. If a member ends meanwhile, the others may wait for ever.
[[gnu::cold]] inline int mpi_create_independent(MPI_Group group, char const* name, MPI_Comm* made) noexcept {
  return MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
}

#else

inline constexpr int mpi_rank_lost = MPI_ERR_OTHER;
[[gnu::cold]] inline bool mpi_survives() { return false; }
[[gnu::cold]] inline bool mpi_is_loss(int) noexcept { return false; }
template <class F>
void mpi_for_each_lost(MPI_Comm, F&&) noexcept {}
[[gnu::cold]] inline void mpi_revoke(MPI_Comm) noexcept {}
[[gnu::cold]] inline int mpi_revoked(MPI_Comm) noexcept { return MPI_SUCCESS; }
[[gnu::cold]] inline bool mpi_agree(MPI_Comm, bool yes) noexcept { return yes; }
[[gnu::cold]] inline int mpi_shrink(MPI_Comm, MPI_Comm*) noexcept { return MPI_ERR_OTHER; }
[[gnu::cold]] inline int mpi_create_independent(MPI_Group, char const*, MPI_Comm*) noexcept { return MPI_ERR_OTHER; }

#endif

// Receives a message from any source, if there is one. It probes rather than posting a receive ahead, because when a rank is lost
// Open MPI 5.0.7 may fail such a receive and drop its message; a probe only fails until mpi_for_each_lost is called.
inline int mpi_receive_any(MPI_Comm comm, int tag, void* to, int bytes, int& arrived, MPI_Status& status) noexcept {
  int const code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &arrived, &status);
  if (code != MPI_SUCCESS) arrived = 0;
  if (arrived == 0) return code;
  return MPI_Recv(to, bytes, MPI_BYTE, status.MPI_SOURCE, tag, comm, &status);
}

}  // namespace tutti::detail
