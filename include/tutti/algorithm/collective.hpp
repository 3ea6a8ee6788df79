// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives by name. What each of them promises is in analyze/contract.hpp; how to call it in collective/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tutti {

enum class collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  all_to_all,
  barrier,
  scan,
  exclusive_scan,
};

inline constexpr std::array every_collective{
    collective::all_reduce, collective::reduce, collective::broadcast,      collective::reduce_scatter,
    collective::all_gather, collective::gather, collective::scatter,        collective::all_to_all,
    collective::barrier,    collective::scan,   collective::exclusive_scan,
};

constexpr std::string_view name(collective c) {
  switch (c) {
    case collective::all_reduce: return "all_reduce";
    case collective::reduce: return "reduce";
    case collective::broadcast: return "broadcast";
    case collective::reduce_scatter: return "reduce_scatter";
    case collective::all_gather: return "all_gather";
    case collective::gather: return "gather";
    case collective::scatter: return "scatter";
    case collective::all_to_all: return "all_to_all";
    case collective::barrier: return "barrier";
    case collective::scan: return "scan";
    case collective::exclusive_scan: return "exclusive_scan";
  }
  return "?";
}

// Whether the collective combines values: the ones that take an operation.
constexpr bool reduces(collective c) {
  return c == collective::all_reduce || c == collective::reduce || c == collective::reduce_scatter ||
         c == collective::scan || c == collective::exclusive_scan;
}

// Whether one rank is special.
constexpr bool rooted(collective c) {
  return c == collective::reduce || c == collective::broadcast || c == collective::gather || c == collective::scatter;
}

// Whether every rank gets something from every rank.
constexpr bool all_hear_all(collective c) {
  return c == collective::all_reduce || c == collective::reduce_scatter || c == collective::all_gather ||
         c == collective::all_to_all || c == collective::barrier;
}

// Whether a chunk is a rank's block (chunk q belongs to rank q), rather than any part of one message.
constexpr bool by_block(collective c) {
  return c == collective::reduce_scatter || c == collective::all_gather || c == collective::gather ||
         c == collective::scatter || c == collective::all_to_all;
}

// Whether what a rank sends has a block for every rank, each of which gets its own.
constexpr bool deals(collective c) {
  return c == collective::reduce_scatter || c == collective::scatter || c == collective::all_to_all;
}

// Whether what a rank gets has a block of every rank, side by side.
constexpr bool collects(collective c) {
  return c == collective::all_gather || c == collective::gather || c == collective::all_to_all;
}

}  // namespace tutti
