// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests of started tutti calls: generalized MPI requests, so that the program can wait for them together with others
// of the MPI.
#pragma once

#include <atomic>
#include <memory>
#include <mpi.h>
#include <optional>
#include <string_view>
#include <utility>

#include "errors.hpp"
#include "messages.hpp"
#include "tutti/started/work.hpp"

namespace interpose {

struct pending {
  std::optional<keepsakes> kept{std::in_place};  // until it has ended
  tutti::work work;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;           // the result of the call
  std::atomic<int> owners{2};       // the call until it has ended, and its request, which the program may free before
  std::shared_ptr<failure> failed;  // of its communicator
  std::string_view function{};      // for errors; communicator and type may be gone when it ends
};

// The request of a call. From the first one on, a thread that makes no MPI calls drives started calls, because the
// program may wait in the MPI for something else.
MPI_Request add(std::unique_ptr<pending> started);

// For a call that the program does not wait for: its error goes to the handler of MPI_COMM_WORLD.
void add_without_request(std::unique_ptr<pending> started);

// Called before MPI is finalized.
void end_requests();

}  // namespace interpose
