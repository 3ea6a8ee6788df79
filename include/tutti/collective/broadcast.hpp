// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast: every rank gets the root's array.
#pragma once

#include "tutti/started/movement.hpp"

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
  if (comm.size() == 1) return detail::call_alone(comm, [] {});
  detail::check_algorithm<Algorithm, collective::broadcast, void>(comm, o, where);
  std::byte* const memory = detail::writable_bytes_of(data);
  auto const used = detail::memory_of(collective::broadcast, "", [=, sends = comm.rank() == root](auto& use) {
    if (sends) use.reads(memory, count * sizeof(T));
    else use.writes(memory, count * sizeof(T));
  });
  return detail::call_on<Algorithm>(comm, o, where, used, [=](auto& ranks) {
    detail::request const r = detail::movement_request<collective::broadcast, Algorithm, T>(o, count, root);
    auto call = detail::open(ranks, r, o, detail::type_name<T>(), {}, where);
    if (call.plan().how == protocol::packet)
      return detail::execute_packets<collective::broadcast>(ranks.engine(), call, r, detail::moving{}, memory, memory);
    detail::surfaces<std::byte> both{.input = {memory}, .output = {memory}, .scratch = {}, .in_place = true};
    detail::execute<Algorithm, collective::broadcast>(ranks.engine(), call, r, detail::moving{}, both, r.bytes());
  });
}

}  // namespace tutti
