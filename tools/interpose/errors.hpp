// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of tutti in the words of MPI.
#pragma once

#include <atomic>
#include <exception>
#include <mpi.h>
#include <mutex>
#include <string>
#include <string_view>

namespace interpose {

// "MPI_Allreduce of MPI_DOUBLE on communicator MPI_COMM_WORLD". Without a type: MPI_DATATYPE_NULL.
std::string describe_call(std::string_view function, MPI_Datatype type, MPI_Comm comm);

// Whether an error in a call on the communicator ends the program.
bool ends_the_program(MPI_Comm comm);

// The first error of a communicator. All later ones on this rank are reported as the same, because they follow from it.
class failure {
 public:
  // MPI_SUCCESS if there was none.
  int code() const noexcept { return code_.load(std::memory_order_relaxed); }

  // Prints what went wrong in a call, and returns a code, of a class of the library's own, for which MPI_Error_string
  // gives the same text. Later calls return the same code. If several ranks of a machine fail for the same reason, one prints all of it.
  // `ends`: the MPI prints the text and ends the program, so it is short, too.
  int report(std::string_view call, std::exception const& problem, bool ends);

 private:
  std::mutex reporting_;
  std::atomic<int> code_{MPI_SUCCESS};
};

}  // namespace interpose
