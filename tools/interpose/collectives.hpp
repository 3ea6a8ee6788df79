// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's collectives over shared memory as functions on bytes: compiled once, without MPI, for all MPIs.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "operations.hpp"
#include "room_shm.hpp"
#include "tutti/core/environment.hpp"
#include "tutti/started/asynchronous.hpp"

namespace interpose {

using communicator = tutti::communicator<room_shm>;
using asynchronous = tutti::asynchronous<room_shm>;
template <class Comm>
using returned = tutti::detail::returned_by<Comm&>;
using input = std::span<std::byte const>;
using output = std::span<std::byte>;
using sizes = std::span<std::size_t const>;  // bytes, one entry per rank

// An MPI program may keep its ranks waiting as long as it likes, so only an explicit TUTTI_TIMEOUT applies.
inline std::chrono::nanoseconds longest_wait() {
  if (tutti::detail::environment_variable("TUTTI_TIMEOUT").empty()) return std::chrono::hours(24 * 365);
  return tutti::detail::settings::from_environment().timeout;
}
tutti::options const& as_long_as_it_takes();

// Waits until all ranks have announced the same call, of so many bytes, that tutti does not carry out. To ranks that make another call
// it is an all_reduce of `what.type` with `what.operation`.
void announce(communicator& comm, tutti::detail::call_names const& what, std::size_t bytes);
// The same without waiting. `what.type` must outlive the work.
tutti::work start_announcing(communicator& comm, tutti::detail::call_names const& what, std::size_t bytes);

// Arguments and errors are those of the collectives in tutti/collective. Comm is a communicator, or asynchronous.
template <class Comm>
returned<Comm> barrier(Comm& comm);
template <class Comm>
returned<Comm> broadcast(Comm& comm, output data, int root);
template <class Comm>
returned<Comm> gather(Comm& comm, input in, output out, int root);
template <class Comm>
returned<Comm> gather_v(Comm& comm, input in, output out, sizes counts, sizes offsets, int root);
template <class Comm>
returned<Comm> scatter(Comm& comm, input in, output out, int root);
template <class Comm>
returned<Comm> scatter_v(Comm& comm, input in, sizes counts, output out, sizes offsets, int root);
template <class Comm>
returned<Comm> all_gather(Comm& comm, input in, output out);
template <class Comm>
returned<Comm> all_gather_v(Comm& comm, input in, output out, sizes counts, sizes offsets);
template <class Comm>
returned<Comm> all_to_all(Comm& comm, input in, output out);
template <class Comm>
returned<Comm> all_to_all_v(Comm& comm, input in, sizes sent, output out, sizes received, sizes sent_at,
                            sizes received_at);

template <class Comm>
returned<Comm> all_reduce(Comm& comm, combination const& how, input in, output out);
template <class Comm>
returned<Comm> reduce(Comm& comm, combination const& how, input in, output out, int root);
template <class Comm>
returned<Comm> reduce_scatter(Comm& comm, combination const& how, input in, output out);
template <class Comm>
returned<Comm> reduce_scatter_v(Comm& comm, combination const& how, input in, output out, sizes counts);
template <class Comm>
returned<Comm> scan(Comm& comm, combination const& how, input in, output out);
template <class Comm>
returned<Comm> exclusive_scan(Comm& comm, combination const& how, input in, output out);

}  // namespace interpose
