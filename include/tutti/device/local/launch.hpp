// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of calls among virtual ranks: as independent jobs, or as ranks that send each other messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/core/is_a.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/plan.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/kernel/packet.hpp"
#include "tutti/device/kernel/row_launch.hpp"
#include "tutti/device/kernel/steps.hpp"
#include "tutti/device/local/buffers.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

// One pass over all arrays, whose elements several devices share.
template <device D, class Reach, class In, class Out, class How>
void launch_pass_of(cuda_local<D, Reach> const& ranks, local_arrays<In, Out> const& arrays, How const& how,
                    stream_of<D> stream) {
  constexpr std::size_t grain = sizeof(In) < device_line ? device_line / sizeof(In) : 1;
  device_team<D> const& team = ranks.team();
  team.on_each(stream, [&](int k, stream_of<D> its) {
    extent const mine = part(arrays.n, team.size(), k, grain);
    std::vector<In const*> sources = arrays.in;
    std::vector<Out*> destinations = arrays.out;
    for (In const*& x : sources) x += mine.begin;
    for (Out*& x : destinations) x += mine.begin;
    cuda_combine(team.at(k), its, std::span<In const* const>(sources), std::span<Out* const>(destinations), mine.count,
                 shifted_by(mine.begin, how));
  });
}

// Rows, which several devices share.
template <device D, class Reach, class In, class Out, class How, class Epilogue>
void launch_pass_of(cuda_local<D, Reach> const& ranks, local_arrays<In, Out> const& arrays,
                    row_wise<How, Epilogue> const& how, stream_of<D> stream) {
  device_team<D> const& team = ranks.team();
  std::span<In const* const> const sources(arrays.in);
  std::span<Out* const> const destinations(arrays.out);
  team.on_each(stream, [&](int k, stream_of<D> its) {
    launch_rows(team.at(k), its, sources, destinations, part(arrays.n / how.length, team.size(), k), how);
  });
}

template <collective C, class T, class Blocks, device D, class Reach, class How>
void launch_jobs(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Blocks const& blocks, How const& how,
                 stream_of<D> stream) {
  if (arrays.n == 0) return;
  static_assert(
      arrays_of<How> == 0,
      "an epilogue's arrays are one for all ranks of a cuda_local, and each of these would update them by its own "
      "block; use all_reduce or reduce, or keep the arrays outside of the call");
  local_work<C, T, How, Blocks> work{
      .in = {}, .out = {}, .plan = {ranks.size()}, .first = 0, .count = 0, .blocks = blocks, .how = how};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  ranks.team().on_each(stream, [&](int k, stream_of<D> its) {
    extent const mine = work.plan.jobs_of(ranks.ranks_on(k));
    if (mine.count == 0) return;
    work.first = static_cast<int>(mine.begin);
    work.count = static_cast<int>(mine.count);
    ranks.team().at(k).launch(its, work.items(), work);
  });
}
template <device D, class Reach>
device_channels<D, Reach>& channels_of(cuda_local<D, Reach> const& ranks, stream_of<D> stream,
                                       std::source_location where) {
  if (ranks.channels() == nullptr)
    refuse_call("an algorithm sends messages between ranks, and this cuda_local has no channels for them",
                "make it from tutti::device_channels(gpu, ranks)", where);
  ranks.channels()->begin_call(stream, where);
  return *ranks.channels();
}

// The number of blocks for a rank, such that each device runs all of its blocks at once. Asking loads the kernel, which must
// not happen while another kernel waits for it.
template <class Work, device D, class Reach>
int blocks_of_rank(cuda_local<D, Reach> const& ranks, int wanted, std::source_location where) {
  for (int k = 0; k < ranks.team().size(); ++k) {
    int const most = ranks.team().at(k).template blocks_at_once<Work>();
    int const here = static_cast<int>(ranks.ranks_on(k).count);
    if (most < here)
      refuse_call(join({"a device that runs ", most, " blocks of this kernel at once cannot have ", here,
                        " ranks that send each other messages"}),
                  "ask for fewer ranks, or leave the algorithm automatic", where);
    if (here > 0) wanted = std::min(wanted, most / here);
  }
  return wanted;
}

template <marking_device D>
[[gnu::cold]] bool is_captured(D const& on, stream_of<D> stream) noexcept {
  try {
    return on.capturing(stream);
  } catch (...) {
    return false;
  }
}

// Calls f(ranks there, number, stream) for every device that has ranks, to launch kernels that wait for each other. If it throws,
// those that run already are released from waiting. While the stream is captured, none runs.
template <device D, class Reach, class F>
void launch_on_each(cuda_local<D, Reach> const& ranks, stream_of<D> stream, F const& f) {
  int launched = 0;
  try {
    ranks.team().on_each(stream, [&](int k, stream_of<D> its) {
      extent const here = ranks.ranks_on(k);
      if (here.count == 0) return;
      f(here, k, its);
      ++launched;
    });
  } catch (...) {
    if constexpr (marking_device<D>)
      if (launched > 0 && !is_captured(ranks.on(), stream)) ranks.channels()->release_kernels();
    throw;
  }
}

template <collective C, class Schedule, class T, device D, class Reach, class Op>
void launch_steps(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                  std::source_location where) {
  using plan_type = steps_plan<C, Schedule, T, Op, Reach>;
  device_channels<D, Reach>& channels = channels_of(ranks, stream, where);
  plan_type const plan(channels.map(), arrays.root, arrays.n, where);
  int const blocks = blocks_of_rank<typename plan_type::work>(ranks, plan.blocks(channels.share()), where);
  auto work = plan.work_of(blocks, op, channels.reach(0));
  arrays.put_into(work);
  // All memory is allocated before the first launch, because an allocation may wait until a device is idle.
  std::vector<std::byte*> memory;
  for (int k = 0; k < ranks.team().size(); ++k) {
    std::size_t const bytes = ranks.ranks_on(k).count * (plan.copy_bytes() + work.scratch_bytes);
    memory.push_back(bytes > 0 ? channels.scratch(k, bytes) : nullptr);
  }
  launch_on_each(ranks, stream, [&](extent here, int k, stream_of<D> its) {
    D const& on = ranks.team().at(k);
    std::byte* next = memory[static_cast<std::size_t>(k)];
    // Copies of inputs that the schedule would overwrite too early, followed by its scratch.
    for (std::size_t r = here.begin; r < here.end() && plan.copy_bytes() > 0; ++r, next += plan.copy_bytes())
      if (plan.is_in_place(static_cast<int>(r), work.in[r], work.out[r])) {
        on.copy(its, next, work.in[r], plan.input_bytes());
        work.in[r] = reinterpret_cast<T const*>(next);
      }
    work.scratch = next;
    work.first = static_cast<int>(here.begin);
    work.reach = channels.reach(k);
    on.launch_together(its, static_cast<int>(here.count) * blocks, work);
  });
}

template <collective C, class T, device D, class Reach, class Op>
void launch_packets(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                    std::source_location where) {
  using work_type = packet_work<C, T, Op, Reach>;
  device_channels<D, Reach>& channels = channels_of(ranks, stream, where);
  expect_packets(channels.map(), arrays.n * sizeof(T), where);
  int const blocks = blocks_of_rank<work_type>(ranks, work_type::blocks_for(arrays.n), where);
  work_type work{.in = {},
                 .out = {},
                 .first = 0,
                 .channels = channels.map(),
                 .reach = channels.reach(0),
                 .ranks = ranks.size(),
                 .blocks = blocks,
                 .n = arrays.n,
                 .op = op};
  arrays.put_into(work);
  launch_on_each(ranks, stream, [&](extent here, int k, stream_of<D> its) {
    work.first = static_cast<int>(here.begin);
    work.reach = channels.reach(k);
    ranks.team().at(k).launch_together(its, static_cast<int>(here.count) * blocks, work);
  });
}

// Shows the host's part of a call to a profiler, with the bytes of the array or of the longest block.
template <collective C, device D, class Reach>
shown_range show_launch(cuda_local<D, Reach> const& ranks, std::size_t bytes) {
  return show([&] { return join({name(C), " of ", bytes, " bytes among ", ranks.size(), " virtual ranks"}); }, bytes);
}

// Carries out a call as it asks: by `jobs()` where it leaves the choice to tutti.
template <class Algorithm, collective C, class In, class Out, device D, class Reach, class Op, class Jobs>
void carry_out(cuda_local<D, Reach> const& ranks, local_arrays<In, Out> const& arrays, Op const& op,
               device_options<D> const& how, std::source_location where, Jobs const& jobs) {
  shown_range const shown = show_launch<C>(ranks, arrays.n * sizeof(In));
  if constexpr (std::is_same_v<Algorithm, automatic>) {
    if (how.algorithm != algorithm_id::automatic)
      refuse_call(
          join({"the call chooses ", name(how.algorithm), " in its options, but has not been compiled with it"}),
          "write tutti::all_reduce<tutti::ring>(...), or a tutti::list of types and choose one by its id", where);
    if (how.protocol != protocol::automatic)
      refuse_call(join({"protocol ", name(how.protocol), " needs an algorithm, but the call names none"}),
                  "write tutti::all_reduce<tutti::one_shot>(...), or leave the protocol automatic", where);
    jobs();
  } else {
    static_assert(std::is_same_v<In, Out>, "an algorithm sends elements of one type; input and output differ");
    static_assert(is_bare_operation<Op>,
                  "an algorithm takes an operation; its prologue and epilogue are op.prepare and op.finish");
    using combined = std::conditional_t<reduces(C), Op, void>;
    named_algorithms<Algorithm>::template visit<C, combined>(how.algorithm, where, [&](auto schedule) {
      if (ranks.size() == 1 || arrays.n == 0) return jobs();
      if constexpr (all_hear_all(C) && std::is_same_v<decltype(schedule), tutti::schedule<one_shot, C>>) {
        bool const small = arrays.n * sizeof(In) <= ranks.max_packet_bytes();
        if (how.protocol == protocol::packet || (how.protocol == protocol::automatic && small))
          return launch_packets<C>(ranks, arrays, op, how.stream, where);
      }
      if (how.protocol != protocol::automatic && how.protocol != protocol::staged)
        refuse_call(join({"this call on a device cannot use protocol ", name(how.protocol)}),
                    "leave the protocol automatic, or use one_shot for packets", where);
      launch_steps<C, decltype(schedule)>(ranks, arrays, op, how.stream, where);
    });
  }
}

// A call whose blocks, if it has any, are all of one size. T and Result are the types in which elements are combined or
// moved, of which the program's elements have `unit` each; `stages` is `op` with its prologue and epilogue.
template <class Algorithm, collective C, class T, class Result, device D, class Reach, class In, class Out, class Op,
          class Stages>
void call_local(cuda_local<D, Reach> const& ranks, In& in, Out& out, int root, std::size_t unit, Op const& op,
                Stages const& stages, device_options<D> const& how, std::source_location where) {
  even_blocks const blocks = even_blocks_of<C>(in, out, ranks.size(), where);
  auto const arrays = check_local_buffers<C, T, Result>(ranks.team(), in, out, ranks.size(), root, blocks, unit, where);
  expect_whole_rows(op, 0, arrays.n, where);
  bool by_jobs = false;
  carry_out<Algorithm, C>(ranks, arrays, op, how, where, [&] {
    by_jobs = true;
    // Where all results are the same, one pass makes them.
    if constexpr (!by_block(C) && !is_prefix(C)) launch_pass_of(ranks, arrays, stages, how.stream);
    else launch_jobs<C>(ranks, arrays, even_blocks{arrays.n}, stages, how.stream);
  });
  // Schedules leave the output of the root alone.
  if constexpr (row_of(C).output == except_root(holding::all))
    if (Result* const own = arrays.out[static_cast<std::size_t>(root)]; !by_jobs && own != arrays.in[0])
      launch_pass_of(ranks, local_arrays<T, Result>{arrays.in, {own}, arrays.n}, stages, how.stream);
}

template <class Algorithm, collective C, device D, class Reach, class In, class Out>
void move_local(cuda_local<D, Reach> const& ranks, In& in, Out& out, int root, device_options<D> const& how,
                std::source_location where) {
  using T = device_element<In>;
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  call_local<Algorithm, C, word_of<T>, word_of<T>>(ranks, in, out, root, words_in<T>, bit_or{}, word_moves, how, where);
}

template <class Algorithm, collective C, device D, class Reach, class In, class Out, class Op>
void reduce_local(cuda_local<D, Reach> const& ranks, In& in, Out& out, Op const& op, int root,
                  device_options<D> const& how, std::source_location where) {
  using T = device_element<In>;
  expect_usable_on_devices<Op, T, device_element<Out>>();
  static_assert((!by_block(C) && !is_prefix(C)) || std::is_same_v<T, device_element<Out>>,
                "inputs and outputs have different element types");
  static_assert(
      !is_prefix(C) || !finishes_result<Op, T>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  static_assert(!is_a<Op, on_wire>,
                "virtual ranks read each other's arrays in place, so nothing travels as a wire type");
  static_assert(C == collective::all_reduce || !is_row_wise<Op>, "only all_reduce takes an epilogue on rows");
  static_assert(!has_shards<Op>,
                "virtual ranks share the arrays of an epilogue, which have all elements; use with_arrays");
  using form = device_form<Op, T>;
  call_local<Algorithm, C, form, device_form<Op, device_element<Out>>>(ranks, in, out, root, 1, op,
                                                                       in_stages<form>(op, ranks.size()), how, where);
}

}  // namespace tutti::detail
