// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of ranks that are processes with a device each and wait for each other: any schedule step by step, and
// packets.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/concept.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/front/plan.hpp"
#include "tutti/device/ipc/group.hpp"
#include "tutti/device/kernel/packet.hpp"
#include "tutti/device/kernel/steps.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// A kernel may wait for kernels of other devices because they run at the same time; kernels that share a device may
// not. While it waits, the kernel reads the fault word, and ends if it is set. Its output is then undefined, except
// that packets leave each element with its old value or the right one.
template <cooperative_device D, transport Transport>
class ipc_kernels {
 public:
  using group_type = device_group<D, Transport>;

  ipc_kernels(D const& on, int rank, int ranks, group_type& group, std::source_location where)
      : on_{on}, rank_{rank}, group_{group}, map_{channel_map::checked(ranks, options)} {
    std::vector<std::byte> const zeros(map_.flag_bytes());
    auto const posts = group.add_memory(
        map_.post_bytes(),
        [&](std::byte* own) {
          on.copy({}, own, zeros.data(), zeros.size());
          on.wait({}, deadline::after(group.timeout()));
        },
        where);
    for (std::size_t q = 0; q < posts.size(); ++q) map_.posts[q] = posts[q];
  }

  channel_map const& channels() const { return map_; }

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
  template <collective C, class Schedule, class T, class Op>
  void launch_steps(plan_type<C, Schedule, T, Op> const& plan, T const* in, T* out, Op const& op, std::uint32_t call,
                    stream_of<D> stream, std::source_location where) {
    auto work = plan.work_of(plan.blocks(options.share), op, reach(call), call);
    std::byte* memory = scratch(plan.copy_bytes() + work.scratch_bytes, where);
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

  template <collective C, class T, class Op>
  void expect_packets_of(std::size_t n, std::source_location where) const {
    expect_packets(map_, n * sizeof(T), where);
    expect_blocks<packet_work<C, T, Op, several_processes>>(1, where);
  }
  template <collective C, class T, class Op>
  void launch_packets(T const* in, T* out, std::size_t n, Op const& op, std::uint32_t call, stream_of<D> stream) {
    packet_work<C, T, Op, several_processes> work{.in = {},
                                                  .out = {},
                                                  .first = rank_,
                                                  .channels = map_,
                                                  .reach = reach(call),
                                                  .ranks = map_.ranks,
                                                  .n = n,
                                                  .op = op};
    work.in[rank_] = in;
    work.out[rank_] = out;
    on_.launch_together(stream, 1, work);
  }

 private:
  static constexpr channel_options options{};

  several_processes reach(std::uint32_t call) const {
    device_board const board = group_.board();
    device_page& mine = board.rank(rank_);
    auto const [launches, ended] = group_.counts();
    return {.fault = group_.on_device(board.first_fault()),
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
  // Scratch memory, of the same size at all ranks. It grows; earlier memory stays valid, because graphs and pending calls may
  // refer to it. The ranks then meet before any of them launches the kernel: to allocate can mean to wait until all GPUs of
  // the process are idle, and a kernel that was launched would wait for this rank.
  std::byte* scratch(std::size_t bytes, std::source_location where) {
    if (bytes > scratch_bytes_) {
      scratch_ = group_.add_memory_at_all_ranks(std::bit_ceil(bytes), where);
      scratch_bytes_ = std::bit_ceil(bytes);
    }
    return scratch_;
  }

  D const& on_;
  int rank_;
  group_type& group_;
  channel_map map_;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tutti::detail
