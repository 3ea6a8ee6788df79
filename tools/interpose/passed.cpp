// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives that are passed to the MPI, and counted.
#include <mpi.h>

#include "callers.hpp"
#include "decision.hpp"
#include "statistics.hpp"

using namespace interpose;

// INTERPOSE_PASSED(name, function, reason, parameters, arguments...)
#define INTERPOSE_PASSED(name, what, why, parameters, ...) \
  int MPI_##name parameters {                              \
    counted.passed(function::what, reason::why);           \
    return PMPI_##name(__VA_ARGS__);                       \
  }                                                        \
  INTERPOSE_PMPI(name, parameters, __VA_ARGS__)

extern "C" {

// clang-format off
INTERPOSE_PASSED(Alltoallw, alltoallw, not_served,
                 (void const* a, int const b[], int const c[], MPI_Datatype const d[], void* e, int const f[],
                  int const g[], MPI_Datatype const h[], MPI_Comm comm), a, b, c, d, e, f, g, h, comm)

INTERPOSE_PASSED(Ialltoallw, ialltoallw, not_served,
                 (void const* a, int const b[], int const c[], MPI_Datatype const d[], void* e, int const f[],
                  int const g[], MPI_Datatype const h[], MPI_Comm comm, MPI_Request* r),
                 a, b, c, d, e, f, g, h, comm, r)
// clang-format on

}  // extern "C"
