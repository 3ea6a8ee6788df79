// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How processes that share no parent become the ranks of a communicator over shared memory.
#pragma once

#include <string>

#include "tutti/call/communicator.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/launch/usual.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/tune/text.hpp"

namespace tutti::detail {

// All ranks call it with the same name, and return when all have. `timeout`: of the communicator; 0: TUTTI_TIMEOUT. Throws error: as
// init does.
[[gnu::cold]] communicator<shm> meet_as_rank(std::string const& name, int rank, int ranks, countdown& until,
                                             program_table const& table, acquaintance others = {},
                                             std::chrono::nanoseconds timeout = {});

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/meeting_impl.hpp"
#endif
