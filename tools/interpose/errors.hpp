// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of tutti in the words of MPI.
#pragma once

#include <mpi.h>
#include <string>
#include <string_view>

namespace interpose {

// "MPI_Allreduce of MPI_DOUBLE on communicator MPI_COMM_WORLD". Without a type: MPI_DATATYPE_NULL.
std::string describe_call(std::string_view function, MPI_Datatype type, MPI_Comm comm);

// Prints what went wrong in a call, and returns a code, of a class of the library's own, for which MPI_Error_string
// gives the same text. `problem`: a message of tutti.
int report_error(std::string_view call, std::string_view problem);

}  // namespace interpose
