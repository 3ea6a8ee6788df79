// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank goes on before all have come.
#pragma once

#include "tutti/started/reduction.hpp"

namespace tutti {

// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.3.
//
//   tutti::barrier(comm);
//   tutti::work all_are_here = tutti::barrier(tutti::async(comm));
template <class Algorithm = automatic, communicating Comm>
detail::returned_by<Comm> barrier(Comm&& comm, options const& o = {},
                                  std::source_location where = std::source_location::current()) {
  if (comm.size() == 1) return detail::call_alone(comm, [] {});
  detail::check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
  // Schedules pass a token: one byte, combined like a reduction.
  struct tokens {
    unsigned char own = 0;
    mutable unsigned char heard = 0;
    bit_or op{};
  };
  return detail::call_on<Algorithm>(
      comm, o, where, detail::no_memory,
      [=](auto& ranks, tokens const& t) {
        detail::request const r{.what = collective::barrier,
                                .algorithm = detail::id_of<Algorithm>(o),
                                .how = o.protocol,
                                .count = 1,
                                .unlisted = detail::unlisted_or_none<Algorithm, collective::barrier>()};
        auto call = detail::open(ranks, r, o, "token", {}, where);
        detail::reducing<unsigned char, bit_or> const body{t.op};
        if (call.plan().how == protocol::packet)
          return detail::execute_packets<collective::barrier>(ranks.engine(), call, r, body, &t.own, &t.heard);
        detail::surfaces<unsigned char> memory{.input = {&t.own}, .output = {&t.heard}, .scratch = {}};
        detail::execute<Algorithm, collective::barrier>(ranks.engine(), call, r, body, memory, 1);
      },
      tokens{});
}

}  // namespace tutti
