// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of tutti in the words of MPI.
#pragma once

#include <atomic>
#include <mpi.h>
#include <mutex>
#include <string>
#include <string_view>

namespace interpose {

// "MPI_Allreduce of MPI_DOUBLE on communicator MPI_COMM_WORLD". Without a type: MPI_DATATYPE_NULL.
std::string describe_call(std::string_view function, MPI_Datatype type, MPI_Comm comm);

// The first error of a communicator. All later ones on this rank are reported as the same, because they follow from it.
class failure {
 public:
  // MPI_SUCCESS if there was none.
  int code() const noexcept { return code_.load(std::memory_order_relaxed); }

  // Prints what went wrong in a call, and returns a code, of a class of the library's own, for which MPI_Error_string
  // gives the same text. Later calls return the same code. `problem`: a message of tutti.
  int report(std::string_view call, std::string_view problem);

 private:
  std::mutex reporting_;
  std::atomic<int> code_{MPI_SUCCESS};
};

}  // namespace interpose
