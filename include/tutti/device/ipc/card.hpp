// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks with devices of one node tell each other, and whether they can share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/watch/board.hpp"

namespace tutti::detail {

// Processes can share memory only if these are equal.
struct host_identity {
  std::uint64_t machine = 0, processes = 0;

  static host_identity of_this_process() { return {running_system(), process_namespace()}; }
  // Why this process cannot share memory with one there; empty if it can.
  std::string_view objection_to(host_identity const& there) const {
    if (machine != there.machine) return "they are on different machines";
    if (processes != there.processes) return "they are in different containers";
    return {};
  }
};

// The information about a rank's device that the others need.
struct device_card {
  host_identity host{};
  std::int64_t process = 0;
  std::size_t arena_bytes = 0;
  int multiprocessors = 0;
  device_memory_handle arena{};
  device_board_memory::place board{};                               // of rank 0
  std::shared_ptr<device_board_memory const> const* own = nullptr;  // for ranks of the same process
};

// Opens the board that rank 0 has created.
inline std::shared_ptr<device_board_memory const> find_board(device_card const& mine, device_card const& first,
                                                             int ranks) {
  if (first.process == mine.process) return *first.own;
  return std::make_shared<device_board_memory const>(first.board, ranks);
}

// Throws if ranks are threads of one process on one device. Their streams would share the few queues of the hardware, in
// which one that waits holds up those behind it, among them the one that it waits for.
inline void expect_own_queues(int rank, std::vector<device_card> const& cards, std::source_location where) {
  std::string_view const trouble = "a stream that waits can hold up the one that it waits for";
  for (std::size_t b = 0; b < cards.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (cards[a].process == cards[b].process && cards[a].arena.owner == cards[b].arena.owner)
        throw error(
            {.code = error_code::system,
             .rank = rank,
             .what = join({"ranks ", a, " and ", b, " are threads of one process on one device, where ", trouble}),
             .way_out = "make tutti::cuda_local of the ranks of a process, or use tutti::cuda_staged",
             .where = where});
}

// Throws if ranks cannot share memory at all, with the same result at all ranks.
inline void expect_one_host(int rank, std::vector<device_card> const& cards, std::source_location where) {
  auto const& first = cards.front();
  for (std::size_t q = 1; q < cards.size(); ++q) {
    if (auto const why = cards[q].host.objection_to(first.host); !why.empty())
      throw error(
          {.code = error_code::system,
           .rank = rank,
           .what = join({"ranks 0 and ", q, " cannot share memory of devices: ", why}),
           .way_out = "use ranks of one node and container, for example by comm.split, or use tutti::cuda_staged",
           .where = where});
    if (cards[q].arena_bytes != first.arena_bytes)
      throw error({.code = error_code::bad_argument,
                   .rank = rank,
                   .what = join({"rank 0 asks for ", first.arena_bytes, " bytes of a device, rank ", q, " for ",
                                 cards[q].arena_bytes}),
                   .way_out = "pass the same size at all ranks",
                   .where = where});
  }
}

}  // namespace tutti::detail
