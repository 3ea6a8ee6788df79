// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank continues before all have called it.
#pragma once

#include <source_location>

#include "tutti/call/accepted.hpp"
#include "tutti/started/reduction.hpp"

namespace tutti {

namespace detail {

template <class Algorithm, class Comm>
returned_by<Comm> meet(Comm& comm, options const& o, std::source_location where) {
  if (comm.size() == 1) return call_alone(comm, [] {});
  check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
  // Schedules pass a token: one byte, combined like a reduction.
  struct tokens {
    unsigned char own = 0;
    mutable unsigned char heard = 0;
    bit_or op{};
  };
  return call_on<Algorithm>(
      comm, o, where, no_memory,
      [=](auto& ranks, tokens const& t) {
        request const r{.what = collective::barrier,
                        .algorithm = id_of<Algorithm>(o),
                        .how = o.protocol,
                        .count = 1,
                        .unlisted = unlisted_or_none<Algorithm, collective::barrier>()};
        auto call = open(ranks, r, o, "token", {}, where);
        reducing<unsigned char, bit_or> const body{t.op};
        if (call.plan().how == protocol::packet)
          return execute_packets<collective::barrier>(ranks.engine(), call, r, body, &t.own, &t.heard);
        surfaces<unsigned char> memory{.input = {&t.own}, .output = {&t.heard}, .scratch = {}};
        execute<Algorithm, collective::barrier>(ranks.engine(), call, r, body, memory, 1);
      },
      tokens{});
}

}  // namespace detail

// Returns when all ranks have called it. It carries no data.
//
// Throws    error: bad_argument before anything is sent; mismatch, timeout, rank_lost, rank_left
// Source    MPI-4.1, 6.3
//
//   tutti::barrier(comm);
//   tutti::work all_are_here = tutti::barrier(tutti::async(comm));
template <class Algorithm = automatic, class Comm>
  requires detail::host_ranks<Comm>
auto barrier(Comm&& comm, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_communicator<Comm>()) return detail::meet<Algorithm>(comm, o, where);
}

}  // namespace tutti
