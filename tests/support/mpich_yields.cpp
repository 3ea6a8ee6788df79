// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of MPICH spin while they wait, and MPICH has no setting against it, as Open MPI has in mpi_yield_when_idle. On fewer cores than ranks,
// each of its collectives then takes time slices of the system. Programs that are linked with this yield when UCX, over which MPICH sends,
// has had nothing to do for long: the MPI finds this function before that of UCX.
#include <sched.h>

#include <dlfcn.h>

extern "C" unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  static auto* const of_ucx = reinterpret_cast<unsigned (*)(void*)>(::dlsym(RTLD_NEXT, "ucp_worker_progress"));
  thread_local int idle = 0;
  unsigned const progressed = of_ucx(worker);
  if (progressed != 0) idle = 0;
  else if (++idle % 128 == 0) ::sched_yield();
  return progressed;
}
