// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tutti communicators of the program's MPI communicators.
#pragma once

#include <mpi.h>
#include <mutex>
#include <optional>

#include "collectives.hpp"
#include "statistics.hpp"

namespace interpose {

// The state that belongs to an MPI communicator for its lifetime, the same at all its ranks.
struct binding {
  communicator* ranks = nullptr;  // null: its calls are passed to the MPI
  reason why = reason::none;
  std::optional<communicator> own;  // what `ranks` is, but for MPI_COMM_WORLD
  std::mutex calls;                 // taken where threads may make calls at once
};

// Right after MPI was initialised, by all ranks.
void start();
// Right before it is finalized.
void stop();

// The binding of a communicator; null outside of start and stop, and for MPI_COMM_NULL. It is made in the first blocking
// collective of all its ranks, where they may wait for each other; until then a call that must not wait gets one that says so.
binding* find_binding(MPI_Comm comm, bool may_wait);

bool threads_call_at_once();

}  // namespace interpose
