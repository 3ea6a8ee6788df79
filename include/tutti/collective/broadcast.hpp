// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast: every rank gets the root's array.
#pragma once

#include "tutti/call/movement.hpp"

namespace tutti {

// Every rank passes `data` of the same count; the root's is sent, the others' are overwritten.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.4.
//
//   tutti::broadcast(comm, weights, 0);
template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut>
detail::returned_by<Comm> broadcast(Comm&& comm, InOut&& data, int root = 0, options const& o = {},
                                    std::source_location where = std::source_location::current()) {
  using T = value_of<InOut>;
  std::size_t const count = std::ranges::size(data);
  detail::expect_root(comm, root, where);
  std::byte* const memory = detail::writable_bytes_of(data);
  return detail::move<collective::broadcast, Algorithm, T>(comm, count, root,
                                                           detail::array_memory<std::byte>{memory, memory}, o, where);
}

}  // namespace tutti
