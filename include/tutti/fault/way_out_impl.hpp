// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definition of fault/way_out.hpp.
#pragma once

#include "tutti/fault/way_out.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string_view way_out_of_fault(error_code code, circumstance when, bool maps_memory) {
  if (when == circumstance::own) return "correct that algorithm; tutti::analyze::verify says what is wrong with it";
  switch (code) {
    case error_code::mismatch:
      if (when == circumstance::message) return "receive into an array of the type that was sent, at least as long";
      if (when == circumstance::lengths)
        return "all ranks must pass equal counts; in a _v call, the sender and the receiver of a block must pass the "
               "same count for it";
      return "all ranks must make the same calls in the same order, with equal counts, types, operations, algorithms "
             "and protocols (TUTTI_ALGORITHM too); for blocks of different sizes, use the _v calls";
    case error_code::timeout:
      if (when == circumstance::all_arrived)
        return "let every rank wait for the calls that it starts, or use a progress_thread; else find the rank that "
               "hangs (TUTTI_RECORD writes what each waits for), or raise TUTTI_TIMEOUT or options::timeout";
      if (when == circumstance::message)
        return "check the ranks and tags of the sends and receives; if a rank is only late, raise TUTTI_TIMEOUT or "
               "options::timeout; this communicator is closed";
      if (when == circumstance::circle) return "start both directions at once with send_recv, batch, isend or irecv";
      return "find out what keeps the ranks that have not arrived, such as a call on another communicator, or raise "
             "TUTTI_TIMEOUT or options::timeout; this communicator is closed";
    case error_code::rank_lost:
      return "check the output of the rank that ended; this communicator is closed, and the others can continue "
             "without that rank by shrink()";
    case error_code::system:
      if (when == circumstance::message)
        return "keep the array of a send until its work has ended; copy memory that peers cannot read, such as a "
               "device's";
      return maps_memory ? "use protocol staged or direct for such memory"
                         : "check for other errors of the transport's library";
    case error_code::revoked:
      return when == circumstance::aborted
                 ? "end this process too"
                 : "continue with the communicator that shrink() or subgroup() returns, or stop";
    case error_code::excluded:
      return "end this process; find out what held it up, or raise shrink_options::exclude_after";
    case error_code::rank_left:
      if (when == circumstance::message) return "check the ranks and tags of the sends and receives";
      if (when == circumstance::refused) return "correct the call of that rank that was refused";
      return when == circumstance::exception
                 ? "find out what that rank threw; after an exception, no rank can continue with this communicator"
                 : "all ranks must make the same calls before they close their communicators";
    default: return "this communicator can no longer be used";
  }
}

}  // namespace tutti::detail
