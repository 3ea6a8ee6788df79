// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives that are passed to the MPI, and counted. Non-blocking ones need somebody who moves their messages while the
// program does something else, which is the MPI.
#include <mpi.h>

#include "statistics.hpp"

using namespace interpose;

// INTERPOSE_PASSED(name, function, reason, parameters, arguments)
#define INTERPOSE_PASSED(name, what, why, parameters, arguments) \
  int MPI_##name parameters {                                    \
    counted.passed(function::what, reason::why);                 \
    return PMPI_##name arguments;                                \
  }

extern "C" {

// clang-format off
INTERPOSE_PASSED(Alltoallw, alltoallw, not_served,
                 (void const* a, int const b[], int const c[], MPI_Datatype const d[], void* e, int const f[],
                  int const g[], MPI_Datatype const h[], MPI_Comm comm), (a, b, c, d, e, f, g, h, comm))

INTERPOSE_PASSED(Iallgather, iallgather, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, f, comm, r))
INTERPOSE_PASSED(Iallgatherv, iallgatherv, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int const e[], int const f[], MPI_Datatype g,
                  MPI_Comm comm, MPI_Request* r), (a, b, c, d, e, f, g, comm, r))
INTERPOSE_PASSED(Iallreduce, iallreduce, non_blocking,
                 (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, comm, r))
INTERPOSE_PASSED(Ialltoall, ialltoall, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, f, comm, r))
INTERPOSE_PASSED(Ialltoallv, ialltoallv, non_blocking,
                 (void const* a, int const b[], int const c[], MPI_Datatype d, void* e, int const f[], int const g[],
                  MPI_Datatype h, MPI_Comm comm, MPI_Request* r), (a, b, c, d, e, f, g, h, comm, r))
INTERPOSE_PASSED(Ialltoallw, ialltoallw, non_blocking,
                 (void const* a, int const b[], int const c[], MPI_Datatype const d[], void* e, int const f[],
                  int const g[], MPI_Datatype const h[], MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, f, g, h, comm, r))
INTERPOSE_PASSED(Ibarrier, ibarrier, non_blocking, (MPI_Comm comm, MPI_Request* r), (comm, r))
INTERPOSE_PASSED(Ibcast, ibcast, non_blocking, (void* a, int b, MPI_Datatype c, int root, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, root, comm, r))
INTERPOSE_PASSED(Iexscan, iexscan, non_blocking,
                 (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, comm, r))
INTERPOSE_PASSED(Igather, igather, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, int root, MPI_Comm comm,
                  MPI_Request* r), (a, b, c, d, e, f, root, comm, r))
INTERPOSE_PASSED(Igatherv, igatherv, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int const e[], int const f[], MPI_Datatype g, int root,
                  MPI_Comm comm, MPI_Request* r), (a, b, c, d, e, f, g, root, comm, r))
INTERPOSE_PASSED(Ireduce, ireduce, non_blocking,
                 (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, int root, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, root, comm, r))
INTERPOSE_PASSED(Ireduce_scatter, ireduce_scatter, non_blocking,
                 (void const* a, void* b, int const c[], MPI_Datatype d, MPI_Op e, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, comm, r))
INTERPOSE_PASSED(Ireduce_scatter_block, ireduce_scatter_block, non_blocking,
                 (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, comm, r))
INTERPOSE_PASSED(Iscan, iscan, non_blocking,
                 (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm comm, MPI_Request* r),
                 (a, b, c, d, e, comm, r))
INTERPOSE_PASSED(Iscatter, iscatter, non_blocking,
                 (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, int root, MPI_Comm comm,
                  MPI_Request* r), (a, b, c, d, e, f, root, comm, r))
INTERPOSE_PASSED(Iscatterv, iscatterv, non_blocking,
                 (void const* a, int const b[], int const c[], MPI_Datatype d, void* e, int f, MPI_Datatype g, int root,
                  MPI_Comm comm, MPI_Request* r), (a, b, c, d, e, f, g, root, comm, r))
// clang-format on

}  // extern "C"
