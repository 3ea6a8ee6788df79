// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The MPI functions that tutti may carry out, and why it leaves a call of them to the MPI.
#pragma once

#include <array>

#include "named.hpp"

namespace interpose {

// clang-format off
enum class function {
  allgather, allgatherv, allreduce, alltoall, alltoallv, alltoallw, barrier, bcast, exscan, gather, gatherv, reduce,
  reduce_scatter, reduce_scatter_block, scan, scatter, scatterv,
  iallgather, iallgatherv, iallreduce, ialltoall, ialltoallv, ialltoallw, ibarrier, ibcast, iexscan, igather, igatherv,
  ireduce, ireduce_scatter, ireduce_scatter_block, iscan, iscatter, iscatterv,
};
// clang-format on
inline constexpr names function_names(std::to_array<named<function>>({
    {function::allgather, "MPI_Allgather"},
    {function::allgatherv, "MPI_Allgatherv"},
    {function::allreduce, "MPI_Allreduce"},
    {function::alltoall, "MPI_Alltoall"},
    {function::alltoallv, "MPI_Alltoallv"},
    {function::alltoallw, "MPI_Alltoallw"},
    {function::barrier, "MPI_Barrier"},
    {function::bcast, "MPI_Bcast"},
    {function::exscan, "MPI_Exscan"},
    {function::gather, "MPI_Gather"},
    {function::gatherv, "MPI_Gatherv"},
    {function::reduce, "MPI_Reduce"},
    {function::reduce_scatter, "MPI_Reduce_scatter"},
    {function::reduce_scatter_block, "MPI_Reduce_scatter_block"},
    {function::scan, "MPI_Scan"},
    {function::scatter, "MPI_Scatter"},
    {function::scatterv, "MPI_Scatterv"},
    {function::iallgather, "MPI_Iallgather"},
    {function::iallgatherv, "MPI_Iallgatherv"},
    {function::iallreduce, "MPI_Iallreduce"},
    {function::ialltoall, "MPI_Ialltoall"},
    {function::ialltoallv, "MPI_Ialltoallv"},
    {function::ialltoallw, "MPI_Ialltoallw"},
    {function::ibarrier, "MPI_Ibarrier"},
    {function::ibcast, "MPI_Ibcast"},
    {function::iexscan, "MPI_Iexscan"},
    {function::igather, "MPI_Igather"},
    {function::igatherv, "MPI_Igatherv"},
    {function::ireduce, "MPI_Ireduce"},
    {function::ireduce_scatter, "MPI_Ireduce_scatter"},
    {function::ireduce_scatter_block, "MPI_Ireduce_scatter_block"},
    {function::iscan, "MPI_Iscan"},
    {function::iscatter, "MPI_Iscatter"},
    {function::iscatterv, "MPI_Iscatterv"},
}));

// clang-format off
enum class reason {
  none, first_calls, first_use, own_operation, whole_vectors, not_served, intercommunicator, several_machines, operation, gaps,
  bad_argument, same_buffer, in_place, not_started, no_memory, handed_back, broken,
};
// clang-format on
inline constexpr names reason_texts(std::to_array<named<reason>>({
    {reason::none, ""},
    {reason::first_calls, "first calls of a communicator"},
    {reason::first_use, "non-blocking before the first blocking one"},
    {reason::own_operation, "non-blocking by an operation of the program's"},
    {reason::whole_vectors, "long vectors by an operation that does not commute"},
    {reason::not_served, "not served"},
    {reason::intercommunicator, "intercommunicator"},
    {reason::several_machines, "ranks on several machines"},
    {reason::operation, "operation or type"},
    {reason::gaps, "type with gaps"},
    {reason::bad_argument, "an invalid argument"},
    {reason::same_buffer, "one buffer as input and output"},
    {reason::in_place, "MPI_IN_PLACE in place of a buffer"},
    {reason::not_started, "outside of MPI_Init and MPI_Finalize"},
    {reason::no_memory, "no shared memory left"},
    {reason::handed_back, "after an error"},
    {reason::broken, "it could not be taken over"},
}));

}  // namespace interpose
