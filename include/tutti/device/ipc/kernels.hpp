// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of ranks that are processes with a device each and wait for each other: any schedule step by step, packets,
// and all_reduce by blocks that meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/concept.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/front/plan.hpp"
#include "tutti/device/ipc/group.hpp"
#include "tutti/device/kernel/packet.hpp"
#include "tutti/device/kernel/shots.hpp"
#include "tutti/device/kernel/steps.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/growth.hpp"
#include "tutti/device/model/zeros.hpp"
#include "tutti/reduce/rows.hpp"

namespace tutti::detail {

// A kernel may wait for kernels of other devices because they run at the same time; kernels that share a device may
// not. While it waits, the kernel looks for a fault, and ends if there is one. Its output is then undefined, except
// that packets and blocks that meet leave each element with its old value or the right one.
template <cooperative_device D, transport Transport>
class ipc_kernels {
 public:
  using group_type = device_group<D, Transport>;

  ipc_kernels(D const& on, int rank, int ranks, group_type& group, std::source_location where)
      : on_{on},
        rank_{rank},
        group_{group},
        map_{channel_map::checked(ranks, options)},
        scratch_{group.memory().add_growing()} {
    add_posts(map_, where);
    meetings_.ranks = ranks;
    meetings_.half_bytes = group.arena_bytes() / 2 / access_bytes * access_bytes;
    add_posts(meetings_, where);
  }

  channel_map const& channels() const { return map_; }
  meeting_map const& meetings() const { return meetings_; }

  // Carries out a call by a schedule, with n elements of the message or of a block. `plan_of` rejects unsupported
  // calls, on all ranks alike.
  template <collective C, class Schedule, class T, class Op>
  using plan_type = steps_plan<C, Schedule, T, Op, several_processes>;
  template <collective C, class Schedule, class T, class Op>
  plan_type<C, Schedule, T, Op> plan_of(int root, std::size_t n, std::source_location where) const {
    using work = typename plan_type<C, Schedule, T, Op>::work;
    expect_blocks<work>(options.blocks, where);
    return {map_, root, n, where};
  }
  // See growing_memory::expect_allocated.
  template <collective C, class Schedule, class T, class Op>
  void expect_scratch(plan_type<C, Schedule, T, Op> const& plan, stream_of<D> stream,
                      std::source_location where) const {
    scratch_.expect_allocated(plan.copy_bytes() + plan.scratch_bytes(plan.blocks(options.share)), stream, rank_,
                              "such an algorithm and a message of this size", where);
  }
  template <collective C, class Schedule, class T, class Op>
  void launch_steps(plan_type<C, Schedule, T, Op> const& plan, T const* in, T* out, Op const& op, std::uint32_t call,
                    stream_of<D> stream, std::source_location where) {
    auto work = plan.work_of(plan.blocks(options.share), op, reach(call), call);
    std::byte* memory = group_.memory().grow(scratch_, plan.copy_bytes() + work.scratch_bytes, where);
    work.in[rank_] = in;
    if (plan.copy_bytes() > 0 && plan.is_in_place(rank_, in, out)) {
      on_.copy(stream, memory, in, plan.input_bytes());
      work.in[rank_] = reinterpret_cast<T const*>(memory);
    }
    work.out[rank_] = out;
    work.scratch = memory + plan.copy_bytes();
    work.first = rank_;
    on_.launch_together(stream, work.blocks, work);
  }

  // How an all_reduce is carried out; the same at all ranks. `shots`: 1 for one_shot, 2 for two_shot.
  struct shots_plan {
    int shots, blocks;
    shots_cut cut;
  };
  // For n elements. Throws error: bad_argument.
  template <class In, class Out, class Wire, class Rows>
  shots_plan plan_of_shots(int shots, std::size_t n, Rows const& rows, std::source_location where) const {
    constexpr bool is_rows = !std::is_same_v<Rows, no_rows>;
    shots_unit const most_in_unit = shots_unit_of<In, Out, Wire>(rows);
    std::size_t const chunks = shots == 1 ? 1 : static_cast<std::size_t>(meetings_.ranks), half = meetings_.half_bytes;
    // A small arena has rooms that fit less than a unit, but an element.
    shots_unit const unit = half / chunks >= most_in_unit.bytes ? most_in_unit : most_in_unit.smallest();
    auto const room_in = [&](std::size_t blocks) { return half / blocks / chunks / access_bytes * access_bytes; };
    if (room_in(1) < unit.bytes)
      refuse(rank_,
             join({is_rows              ? "a row of "
                   : unit.elements == 1 ? "an element of "
                                        : "a block of ",
                   unit.bytes, " bytes does not fit its part of an arena of ", group_.arena_bytes()}),
             "pass a larger arena to cuda_ipc, or {.arena = ...} to tutti::on", where);
    std::size_t const most = std::min<std::size_t>(
        static_cast<std::size_t>(std::min(meeting_map::max_blocks, shots_blocks_together * group_.multiprocessors())),
        half / chunks / round_up(unit.bytes));
    std::size_t const bytes = n * std::max(sizeof(In), sizeof(Out)),
                      wanted = std::clamp<std::size_t>(slices(bytes, options.share), 1, most);
    even_parts const all(n, static_cast<int>(chunks), unit.grain);
    std::size_t const longest = all.at(0).count,
                      part_units = std::max<std::size_t>(slices(slices(longest, wanted), unit.elements), 1),
                      part_size = part_units * unit.elements,
                      blocks = std::max<std::size_t>(slices(longest, part_size), 1), room = room_in(blocks),
                      piece_size = std::min(part_units, room / unit.bytes) * unit.elements,
                      rounds = slices(part_size, piece_size);
    return {shots, static_cast<int>(blocks), {all, part_size, piece_size, room, static_cast<int>(rounds)}};
  }
  // Whether kernels for sums of T can have a switch combine; the same for every rank of a program, and asked for once.
  template <class T>
  bool asks_switch() const {
    if constexpr (teaming_device<D>) {
      static bool const compiled = on_.template compiled_for_teams<shots_work<T, T, fused<in_any_order<sum>>>>();
      return compiled;
    } else {
      return false;
    }
  }
  // `inputs` and `results`: registered memory, or none. `by_switch`: a switch combines it.
  template <class Wire, class In, class Out, class Fused, class Rows, class Place>
  void launch_shots(shots_plan const& plan, In const* in, Out* out, Place const& inputs, Place const& results,
                    bool by_switch, Fused const& how, Rows const& rows, std::uint32_t call, stream_of<D> stream) {
    shots_work<In, Out, Fused, Wire, Rows> work{.in = in,
                                                .out = out,
                                                .inputs = {},
                                                .results = {},
                                                .input_everywhere = by_switch ? inputs.everywhere() : nullptr,
                                                .result_everywhere = by_switch ? results.everywhere() : nullptr,
                                                .meetings = meetings_,
                                                .reach = reach(call),
                                                .rank = rank_,
                                                .shots = plan.shots,
                                                .blocks = plan.blocks,
                                                .in_place = static_cast<bool>(inputs),
                                                .cut = plan.cut,
                                                .how = how,
                                                .rows = rows};
    if (work.in_place) {
      work.cut.piece_size = work.cut.part_size;
      work.cut.rounds = 1;
    }
    for (int q = 0; q < meetings_.ranks; ++q) {
      work.inputs[q] = inputs ? inputs.at(q) : meetings_.data(q);
      work.results[q] = results ? results.at(q) : meetings_.data(q);
    }
    on_.launch_together(stream, plan.blocks, work);
  }

  template <collective C, class T, class Op>
  void expect_packets_of(std::size_t n, std::source_location where) const {
    expect_packets(map_, n * sizeof(T), where);
    using work = packet_work<C, T, Op, several_processes>;
    expect_blocks<work>(work::blocks_for(n), where);
  }
  template <collective C, class T, class Op>
  void launch_packets(T const* in, T* out, std::size_t n, Op const& op, std::uint32_t call, stream_of<D> stream) {
    packet_work<C, T, Op, several_processes> work{.in = {},
                                                  .out = {},
                                                  .first = rank_,
                                                  .channels = map_,
                                                  .reach = reach(call),
                                                  .ranks = map_.ranks,
                                                  .blocks = packet_work<C, T, Op, several_processes>::blocks_for(n),
                                                  .n = n,
                                                  .op = op};
    work.in[rank_] = in;
    work.out[rank_] = out;
    on_.launch_together(stream, work.blocks, work);
  }

 private:
  static constexpr channel_options options{};

  static std::size_t round_up(std::size_t bytes) { return slices(bytes, access_bytes) * access_bytes; }

  // Memory whose flags are 0 at first.
  template <class Map>
  void add_posts(Map& map, std::source_location where) {
    auto const posts = group_.memory().add(
        map.post_bytes(), [&](std::byte* own) { write_zeros(on_, own, map.flag_bytes(), group_.timeout()); }, where);
    for (std::size_t q = 0; q < posts.size(); ++q) map.posts[q] = posts[q];
  }

  several_processes reach(std::uint32_t call) const {
    device_board const board = group_.board();
    device_page& mine = board.rank(rank_);
    auto const [launches, ended, seen] = group_.counts();
    return {.fault = group_.on_device(board.first_fault()),
            .seen = seen,
            .now = group_.on_device(mine.now),
            .beat = group_.on_device(mine.beat),
            .launches = launches,
            .ended = ended,
            .call = call};
  }
  template <class Work>
  void expect_blocks(int blocks, std::source_location where) const {
    if (int const most = on_.template blocks_at_once<Work>(); most < blocks)
      refuse_call(join({"a kernel of ", blocks, " blocks cannot run at once on a device that runs ", most}),
                  "leave the algorithm automatic", where);
  }

  D const& on_;
  int rank_;
  group_type& group_;
  channel_map map_;
  meeting_map meetings_{};
  growing_memory<D>& scratch_;
};

}  // namespace tutti::detail
