// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call as the notice board keeps it, and as a person reads it.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/core/text.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// Word 0 begins with the fingerprint: equal on all ranks for a right call.
inline call_words to_words(request const& r, plan const& p) {
  return {p.fingerprint | static_cast<std::uint64_t>(r.what) << 32 | static_cast<std::uint64_t>(p.algorithm) << 40 |
              static_cast<std::uint64_t>(p.how) << 48 | static_cast<std::uint64_t>(r.ragged) << 56,
          r.count,
          r.type | static_cast<std::uint64_t>(r.op) << 32,
          static_cast<std::uint32_t>(r.root) | static_cast<std::uint64_t>(r.counts) << 32,
          r.element_bytes,
          r.unlisted != nullptr ? r.unlisted->id : 0,
          0};
}

inline std::uint32_t fingerprint_of(call_words const& words) { return static_cast<std::uint32_t>(words[0]); }

// "all_reduce of 1000 float with sum (ring, staged)", with the names that `rank` has put on the board.
template <class Board>
[[gnu::cold]] std::string describe(call_words const& words, Board const& notices, int rank) {
  auto const what = static_cast<collective>(words[0] >> 32 & 0xff);
  auto const algorithm = static_cast<algorithm_id>(words[0] >> 40 & 0xff);
  auto const how = static_cast<protocol>(words[0] >> 48 & 0xff);
  bool const ragged = (words[0] >> 56 & 1) != 0;
  auto const op = static_cast<std::uint32_t>(words[2] >> 32);

  std::string out(name(what));
  if (ragged) out += "_v";
  if (what != collective::barrier) {
    out += " of ";
    if (!ragged) out += join({words[1], " "});
    out += notices.name(rank, static_cast<std::uint32_t>(words[2]));
    if (ragged && words[3] >> 32 != 0) out += join({", counts #", words[3] >> 32});
  }
  if (op != 0) out += join({" with ", notices.name(rank, op)});
  if (rooted(what)) out += join({", root ", static_cast<std::int32_t>(words[3] & 0xffffffff)});
  auto const own = static_cast<std::uint32_t>(words[5]);
  out += join({" (", own != 0 ? notices.name(rank, own) : std::string(name(algorithm))});
  if (how != protocol::automatic) out += join({", ", name(how)});
  return out += ")";
}

}  // namespace tutti
