// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests of calls that were started on tutti: generalized requests of the MPI, so that the program can wait for them
// together with those of the MPI.
#pragma once

#include <memory>
#include <mpi.h>
#include <optional>
#include <utility>

#include "messages.hpp"
#include "tutti/started/work.hpp"

namespace interpose {

struct pending {
  std::optional<keepsakes> kept{std::in_place};  // until it has ended
  tutti::work work;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;  // what it has ended with
};

// Its request. From the first on, a thread moves what was started, which calls no MPI: the program may wait in the MPI for
// something else.
MPI_Request add(std::unique_ptr<pending> started);

// Before MPI is finalized.
void end_requests();

}  // namespace interpose
