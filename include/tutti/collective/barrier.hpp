// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank goes on before all have come.
#pragma once

#include "tutti/collective/reduction.hpp"

namespace tutti {

// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.3.
//
//   tutti::barrier(comm);
template <class Algorithm = automatic, transport Transport>
void barrier(communicator<Transport>& comm, options const& o = {},
             std::source_location where = std::source_location::current()) {
  if (comm.size() == 1) return;
  detail::check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
  auto& g = comm.group();
  // Schedules pass a token: one byte, combined like a reduction.
  unsigned char token = 0, heard = 0;
  request const r{.what = collective::barrier,
                  .algorithm = detail::id_of<Algorithm>(o),
                  .unlisted = detail::unlisted_or_none<Algorithm, collective::barrier>(),
                  .how = o.protocol,
                  .count = 1};
  detail::running_call<Transport> call(g, r, o, "token", {}, where);
  if (call.plan().how == protocol::packet) {
    packet_exchange<Transport> work(g.transport(), reinterpret_cast<std::byte const*>(&token), 1, g.next_packet_turn(),
                                    call.tag(), g.inbox());
    return call.complete(work);
  }
  detail::execute<Algorithm, collective::barrier>(g, call, r, reducing<unsigned char, bit_or>{bit_or{}},
                                                  {.input = {&token}, .output = {&heard}, .scratch = {}}, 1);
}

}  // namespace tutti
