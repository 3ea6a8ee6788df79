// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that looks MPI up in a handle, as bindings of some languages do: it does not see libtutti-mpi.so, which says so at the end.
// If TEST_BY_SESSION is set, one that starts MPI by a session only.
#include <cstdlib>
#include <dlfcn.h>
#include <mpi.h>

namespace {

template <class Function>
Function* look_up(void* library, char const* name, Function*) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

int by_handle() {
  Dl_info found{};
  if (::dladdr(::dlsym(RTLD_DEFAULT, "PMPI_Initialized"), &found) == 0) return 1;
  void* const library = ::dlopen(found.dli_fname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  look_up(library, "MPI_Init", &MPI_Init)(nullptr, nullptr);
  int const one = 1;
  int sum = 0;
  look_up(library, "MPI_Allreduce", &MPI_Allreduce)(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return look_up(library, "MPI_Finalize", &MPI_Finalize)() == MPI_SUCCESS && sum > 0 ? 0 : 1;
}

#if MPI_VERSION >= 4
int by_session() {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "tutti", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  int const one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  return sum > 0 ? 0 : 1;
}
#endif

}  // namespace

int main() {
#if MPI_VERSION >= 4
  if (std::getenv("TEST_BY_SESSION") != nullptr) return by_session();
#endif
  return by_handle();
}
