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
  if (detail::on_only_node<Algorithm>(comm, o, where, [&](auto& node) { barrier<Algorithm>(node, o, where); })) return;
  detail::check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
  auto& g = comm.group();
  // Schedules pass a token: one byte, combined like a reduction.
  unsigned char token = 0, heard = 0;
  request const r{.what = collective::barrier,
                  .algorithm = detail::id_of<Algorithm>(o),
                  .how = o.protocol,
                  .count = 1,
                  .unlisted = detail::unlisted_or_none<Algorithm, collective::barrier>()};
  detail::running_call<Transport> call(g, r, o, "token", {}, where);
  reducing<unsigned char, bit_or> const body{bit_or{}};
  if (call.plan().how == protocol::packet)
    return detail::execute_packets<collective::barrier>(g, call, r, body, &token, &heard);
  surfaces<unsigned char> memory{.input = {&token}, .output = {&heard}, .scratch = {}};
  detail::execute<Algorithm, collective::barrier>(g, call, r, body, memory, 1);
}

}  // namespace tutti
