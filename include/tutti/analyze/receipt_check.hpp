// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that every message has been received when a symbolic execution ends.
#pragma once

#include <string>

#include "tutti/analyze/result_check.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_channels.hpp"

namespace tutti::analyze {

// Throws a flaw that names the first message that is left in a channel.
inline void check_all_received(symbolic_channels& channels, int ranks, int tracks, int phases, int chunk_length) {
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (int track = 0; track < tracks; ++track) {
        if (channels.empty(from, to, track)) continue;
        auto const m = channels.front(from, to, track);
        throw flaw{"rank " + std::to_string(from) + ", " + track_name(track, phases) + ": sends " +
                   (m.count == 0 ? "an empty message" : label_of(m.symbols->chunk, m.symbols->element, chunk_length)) +
                   " to rank " + std::to_string(to) + ", which never receives it"};
      }
}

}  // namespace tutti::analyze
