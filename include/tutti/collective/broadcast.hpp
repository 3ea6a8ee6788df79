// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast: every rank gets the root's array.
#pragma once

#include "tutti/collective/movement.hpp"

namespace tutti {

// Every rank passes `data` of the same count; the root's is sent, the others' are overwritten.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.4.
//
//   tutti::broadcast(comm, weights, 0);
template <class Algorithm = automatic, transport Transport, mutable_buffer InOut>
void broadcast(communicator<Transport>& comm, InOut&& data, int root = 0, options const& o = {},
               std::source_location where = std::source_location::current()) {
  using T = value_of<InOut>;
  std::size_t const count = std::ranges::size(data);
  detail::expect_root(comm, root, where);
  if (comm.size() == 1) return;
  if (detail::on_only_node<Algorithm>(comm, o, where,
                                      [&](auto& node) { broadcast<Algorithm>(node, data, root, o, where); }))
    return;
  std::byte* const memory = detail::writable_bytes_of(data);

  detail::check_algorithm<Algorithm, collective::broadcast, void>(comm, o, where);
  request const r = detail::movement_request<collective::broadcast, Algorithm, T>(o, count, root);
  detail::running_call<Transport> call(comm.group(), r, o, type_name<T>(), {}, where);
  if (call.plan().how == protocol::packet)
    return detail::execute_packets<collective::broadcast>(comm.group(), call, r, moving{}, memory, memory);
  surfaces<std::byte> both{.input = {memory}, .output = {memory}, .scratch = {}, .in_place = true};
  detail::execute<Algorithm, collective::broadcast>(comm.group(), call, r, moving{}, both, r.bytes());
}

}  // namespace tutti
