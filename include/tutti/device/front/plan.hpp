// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call on devices is cut into blocks and slices where its ranks send each other messages, and the memory it
// needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/kernel/steps.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

// A call by a schedule, of n elements of the array or of a block. All ranks make the same plan.
template <collective C, class Schedule, class T, class Op, class Reach>
class steps_plan {
 public:
  using work = steps_work<C, Schedule, T, Op, Reach>;

  // Throws error: bad_argument.
  steps_plan(channel_map const& channels, int root, std::size_t n, std::source_location where)
      : channels_{channels},
        n_{n},
        of_{channels.ranks, root, !is_commutative<Op>},
        whole_{by_block(C) ? layout::blocks(n, channels.ranks)
                           : layout::whole(n, schedule.lanes(of_), schedule.chunks(of_), grain)} {
    int const chunks = schedule.lanes(of_) * schedule.chunks(of_);
    if (chunks > work::max_chunks)
      refuse_call(join({"a schedule of ", chunks, " chunks on a device, which takes ", work::max_chunks}),
                  "use another algorithm, or fewer ranks", where);
    if (sizeof(T) > channels.slice)
      refuse_call(join({"an element of ", sizeof(T), " bytes does not fit a slice of ", channels.slice}),
                  "make device_channels with longer slices", where);
  }

  // Blocks of a rank where each takes `share` bytes of a chunk.
  int blocks(std::size_t share) const {
    std::size_t const shares = (whole_.at(0, 0).count * sizeof(T) + share - 1) / share;
    return static_cast<int>(std::clamp<std::size_t>(shares, 1, static_cast<std::size_t>(channels_.blocks)));
  }
  // Whether a rank receives a message from another.
  bool hears(int rank, int other) const {
    for (int lane = 0; lane < schedule.lanes(of_); ++lane)
      for (int phase = 0; phase < schedule.phases(of_); ++phase) {
        position const me{rank, lane, phase};
        for (int i = 0; i < schedule.steps(of_, me); ++i) {
          peers const from = schedule.at(of_, me, i).from;
          for (int k = 0; k < from.count; ++k)
            if (from.at(k, of_.ranks) == other) return true;
        }
      }
    return false;
  }
  bool is_in_place(int rank, T const* in, T const* out) const {
    std::size_t const own = static_cast<std::size_t>(rank) * n_;
    return in != nullptr && out != nullptr && detail::is_in_place<C>(in, own, out, own);
  }
  std::size_t input_bytes() const { return input() * sizeof(T); }
  // The size of a copy of the input in a call in place; 0 where the schedule needs none.
  std::size_t copy_bytes() const { return schedule.in_place ? 0 : round_up(input()); }

  // The size of the scratch of a rank.
  std::size_t scratch_bytes(int blocks) const {
    if (!schedule.scratch) return 0;
    std::size_t const slices = static_cast<std::size_t>(blocks * schedule.lanes(of_)) * (channels_.slice / sizeof(T));
    return round_up(work::one_slice(schedule, of_) ? slices : all());
  }

  // The work of the kernel, except for its arrays and its scratch.
  work work_of(int blocks, Op const& op, Reach const& reach, std::uint32_t tag = 0) const {
    return {.in = {},
            .out = {},
            .first = 0,
            .scratch = nullptr,
            .scratch_bytes = scratch_bytes(blocks),
            .channels = channels_,
            .reach = reach,
            .tag = tag,
            .of = of_,
            .whole = whole_,
            .blocks = blocks,
            .op = op};
  }

 private:
  static constexpr Schedule schedule{};
  // The grain of the host, so that chunks are the same there.
  static constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;

  std::size_t input() const { return !by_block(C) || deals(C) ? all() : n_; }
  std::size_t all() const { return by_block(C) ? n_ * static_cast<std::size_t>(of_.ranks) : n_; }
  static std::size_t round_up(std::size_t elements) {
    return (elements * sizeof(T) + device_line - 1) / device_line * device_line;
  }

  channel_map const& channels_;
  std::size_t n_;
  shape of_;
  layout whole_;
};

inline void expect_packets(channel_map const& channels, std::size_t bytes, std::source_location where) {
  if (bytes > channels.packet_bytes())
    refuse_call(join({"packets of ", bytes, " bytes were asked for, but among ", channels.ranks,
                      " ranks they have at most ", channels.packet_bytes()}),
                "leave the protocol automatic", where);
}

}  // namespace tutti::detail
