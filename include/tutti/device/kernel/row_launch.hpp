// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel whose blocks combine and finish rows, and wait for no other rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/core/partition.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/rows.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/reduce/rows.hpp"

namespace tutti::detail {

// The rows of a call in which nobody waits for another rank. Blocks take turns.
template <class In, class Out, class Fused, class Rows>
struct rows_work {
  In const* sources[max_destinations];
  Out* destinations[max_destinations];
  int source_count, destination_count;
  std::size_t first, end;  // rows, from the start of the arrays
  int blocks;
  std::uint32_t const* unless;  // does nothing if it is not 0 by then; or null
  Rows rows;
  Fused how;

  static constexpr int blocks_together = 4;

  template <class Group>
  struct room {
    std::uint32_t stopped;
    row_room<Group, In, Rows> row;
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    if (unless != nullptr) {
      if (group.rank() == 0) store_host_word(shared.stopped, load_host_word(*unless));
      group.sync();
      if (load_host_word(shared.stopped) != 0) return;
    }
    TUTTI_NO_UNROLL
    for (std::size_t row = first + static_cast<std::size_t>(group.block()); row < end;
         row += static_cast<std::size_t>(blocks)) {
      auto const from = [this, row](int k) { return sources[k] + row * rows.length; };
      auto const to = [this, row](int k) { return destinations[k] + row * rows.length; };
      row_pass<0, decltype(from), decltype(to), Fused, typename Rows::epilogue_type>{
          from, source_count, to, destination_count, row, rows, how}(group, shared.row);
    }
  }
};

// Combines rows of all sources and stores what the epilogue makes of them to all destinations. `unless`: a word, or null.
template <device D, class In, class Out, class Fused, class Epilogue>
void launch_rows(D const& on, stream_of<D> stream, std::span<In const* const> sources,
                 std::span<Out* const> destinations, extent rows, row_wise<Fused, Epilogue> const& how,
                 std::uint32_t const* unless = nullptr) {
  static_assert(cooperative_device<D>, "blocks of this device have no barrier");
  using work_type = rows_work<In, Out, Fused, rows_of<Epilogue>>;
  if (rows.count == 0) return;
  auto const most = static_cast<std::size_t>(std::max(on.template blocks_at_once<work_type>(), 1));
  int const blocks = static_cast<int>(std::min(rows.count, most));
  work_type work{.sources = {},
                 .destinations = {},
                 .source_count = static_cast<int>(sources.size()),
                 .destination_count = static_cast<int>(destinations.size()),
                 .first = rows.begin,
                 .end = rows.end(),
                 .blocks = blocks,
                 .unless = unless,
                 .rows = rows_in(how),
                 .how = how.how};
  std::ranges::copy(sources, work.sources);
  std::ranges::copy(destinations, work.destinations);
  on.launch_together(stream, blocks, work);
}

}  // namespace tutti::detail
