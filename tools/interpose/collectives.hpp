// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's collectives over shared memory as functions on bytes: compiled once, without MPI, for all MPIs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <span>

#include "operations.hpp"
#include "tutti/collective/communicator.hpp"
#include "tutti/collective/options.hpp"
#include "tutti/transport/shm.hpp"

namespace interpose {

using communicator = tutti::communicator<tutti::shm>;
using input = std::span<std::byte const>;
using output = std::span<std::byte>;
using sizes = std::span<std::size_t const>;  // bytes, one of each rank

// An MPI program may keep its ranks waiting as long as it likes, so only a TUTTI_TIMEOUT that was asked for counts.
inline std::chrono::nanoseconds longest_wait() {
  return std::getenv("TUTTI_TIMEOUT") != nullptr ? tutti::settings::from_environment().timeout
                                                 : std::chrono::hours(24 * 365);
}
tutti::options const& as_long_as_it_takes();

// What each of them asks and throws is said in tutti/collective.
void barrier(communicator& comm);
void broadcast(communicator& comm, output data, int root);
void gather(communicator& comm, input in, output out, int root);
void gather_v(communicator& comm, input in, output out, sizes counts, sizes offsets, int root);
void scatter(communicator& comm, input in, output out, int root);
void scatter_v(communicator& comm, input in, sizes counts, sizes offsets, output out, int root);
void all_gather(communicator& comm, input in, output out);
void all_gather_v(communicator& comm, input in, output out, sizes counts, sizes offsets);
void all_to_all(communicator& comm, input in, output out);
void all_to_all_v(communicator& comm, input in, sizes sent, sizes sent_at, output out, sizes received,
                  sizes received_at);

void all_reduce(communicator& comm, combination const& how, input in, output out);
void reduce(communicator& comm, combination const& how, input in, output out, int root);
void reduce_scatter(communicator& comm, combination const& how, input in, output out);
void reduce_scatter_v(communicator& comm, combination const& how, input in, output out, sizes counts);
void scan(communicator& comm, combination const& how, input in, output out);
void exclusive_scan(communicator& comm, combination const& how, input in, output out);

}  // namespace interpose
