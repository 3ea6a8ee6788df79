// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tutti communicators of the program's MPI communicators.
#pragma once

#include <atomic>
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
  std::optional<communicator> own;      // `ranks` refers to it, except for MPI_COMM_WORLD
  std::mutex calls;                     // locked if threads may make calls concurrently
  std::atomic<int> error{MPI_SUCCESS};  // of the call that failed: all later ones return it, as no rank knows how far
                                        // the others got
};

// Called by all ranks right after MPI was initialised.
void start();
// Called right before it is finalized.
void stop();

// The binding of a communicator; null outside of start and stop, and for MPI_COMM_NULL. It is created in the first
// blocking collective of all its ranks, where they may wait for each other. Before that, a call that must not wait gets
// a binding that passes it to the MPI.
binding* find_binding(MPI_Comm comm, bool may_wait);

bool threads_call_at_once();

// Lets the MPI progress messages, which it does only during calls: a program relies on its collectives for that. Called
// between start and stop.
void let_the_mpi_work() noexcept;

}  // namespace interpose
