// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How calls of virtual ranks are launched: as independent jobs, or as ranks that send each other messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/core/partition.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/plan.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/kernel/packet.hpp"
#include "tutti/device/kernel/steps.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/tune/devices.hpp"

namespace tutti::detail {

// The arrays of all ranks, or that of a root alone; n elements of the message, or of a block.
template <class T>
struct local_arrays {
  std::vector<T const*> in;
  std::vector<T*> out;
  std::size_t n;
};

// One pass over some elements of all arrays; several devices share them.
template <device D, class Reach, class T, class Out, class How>
void launch_pass_of(cuda_local<D, Reach> const& ranks, std::vector<T const*> const& from, std::vector<Out*> const& to,
                    std::size_t n, How const& how, stream_of<D> stream) {
  constexpr std::size_t grain = sizeof(T) < device_line ? device_line / sizeof(T) : 1;
  device_team<D> const& team = ranks.team();
  team.on_each(stream, [&](int k, stream_of<D> its) {
    extent const mine = part(n, team.size(), k, grain);
    std::vector<T const*> sources = from;
    std::vector<Out*> destinations = to;
    for (T const*& x : sources) x += mine.begin;
    for (Out*& x : destinations) x += mine.begin;
    cuda_combine(team.at(k), its, std::span<T const* const>(sources), std::span<Out* const>(destinations), mine.count,
                 shifted_by(mine.begin, how));
  });
}

// T is the type in which elements are combined or moved; the longest block has arrays.n of them.
template <collective C, class T, class Blocks, device D, class Reach, class How>
void launch_jobs(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Blocks const& blocks, How const& how,
                 stream_of<D> stream) {
  static_assert(
      arrays_of<How> == 0,
      "an epilogue's arrays are one for all ranks of a cuda_local, and each of these would update them by its own "
      "block; use all_reduce or reduce, or keep the arrays outside of the call");
  local_work<C, T, How, Blocks> work{
      .in = {}, .out = {}, .plan = {ranks.size()}, .first = 0, .count = 0, .blocks = blocks, .how = how};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  std::size_t const warps = arrays.n / device_pack<T> / warp_threads + 1;
  ranks.team().on_each(stream, [&](int k, stream_of<D> its) {
    extent const mine = work.plan.jobs_of(ranks.ranks_on(k));
    if (mine.count == 0) return;
    work.first = static_cast<int>(mine.begin);
    work.count = static_cast<int>(mine.count);
    ranks.team().at(k).launch(its, mine.count * warps * warp_threads, work);
  });
}
template <collective C, class T, device D, class Reach, class How>
void launch_jobs(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, How const& how,
                 stream_of<D> stream) {
  if (arrays.n == 0) return;
  launch_jobs<C>(ranks, arrays, even_blocks{arrays.n}, how, stream);
}

template <device D, class Reach>
device_channels<D, Reach>& channels_of(cuda_local<D, Reach> const& ranks, stream_of<D> stream,
                                       std::source_location where) {
  if (ranks.channels() == nullptr)
    refuse_call("an algorithm sends messages between ranks, for which this cuda_local has no channels",
                "make it of tutti::device_channels(gpu, ranks)", where);
  ranks.channels()->expect_stream(stream, where);
  return *ranks.channels();
}

// How many blocks work for a rank, as far as each device runs all of its own at once. Asking loads the kernel, which must not
// happen while another waits for it.
template <class Work, device D, class Reach>
int blocks_of_rank(cuda_local<D, Reach> const& ranks, int wanted, std::source_location where) {
  for (int k = 0; k < ranks.team().size(); ++k) {
    int const most = ranks.team().at(k).template blocks_at_once<Work>() / ranks.team().times(k);
    int const here = static_cast<int>(ranks.ranks_on(k).count);
    if (most < here)
      refuse_call(join({here, " ranks are to send each other messages on a device that runs ", most,
                        " blocks of this kernel at once"}),
                  "ask for fewer ranks, or leave the algorithm automatic", where);
    if (here > 0) wanted = std::min(wanted, most / here);
  }
  return wanted;
}

// The part of a launch that is one device's: f(ranks there, its number, its stream).
template <device D, class Reach, class F>
void on_each_with_ranks(cuda_local<D, Reach> const& ranks, stream_of<D> stream, F const& f) {
  ranks.team().on_each(stream, [&](int k, stream_of<D> its) {
    if (extent const here = ranks.ranks_on(k); here.count > 0) f(here, k, its);
  });
}

template <collective C, class Schedule, class T, device D, class Reach, class Op>
void launch_steps(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                  std::source_location where) {
  using plan_type = steps_plan<C, Schedule, T, Op, Reach>;
  device_channels<D, Reach>& channels = channels_of(ranks, stream, where);
  plan_type const plan(channels.map(), 0, arrays.n, where);
  int const blocks = blocks_of_rank<typename plan_type::work>(ranks, plan.blocks(channels.share()), where);
  auto work = plan.work_of(blocks, op, Reach{});
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  // All memory is there before the first launch: to allocate some may take until a device has nothing to do.
  std::vector<std::byte*> memory;
  for (int k = 0; k < ranks.team().size(); ++k) {
    std::size_t const bytes = ranks.ranks_on(k).count * (plan.copy_bytes() + work.scratch_bytes);
    memory.push_back(bytes > 0 ? channels.scratch(k, bytes) : nullptr);
  }
  on_each_with_ranks(ranks, stream, [&](extent here, int k, stream_of<D> its) {
    D const& on = ranks.team().at(k);
    std::byte* next = memory[static_cast<std::size_t>(k)];
    // Copies of inputs that the schedule would overwrite too early; behind them its scratch.
    for (std::size_t r = here.begin; r < here.end() && plan.copy_bytes() > 0; ++r, next += plan.copy_bytes())
      if (work.in[r] != nullptr && is_in_place<C>(work.in[r], work.out[r], r * arrays.n)) {
        on.copy(its, next, arrays.in[r], plan.input_bytes());
        work.in[r] = reinterpret_cast<T const*>(next);
      }
    work.scratch = next;
    work.first = static_cast<int>(here.begin);
    on.launch_together(its, static_cast<int>(here.count) * blocks, work);
  });
}

template <collective C, class T, device D, class Reach, class Op>
void launch_packets(cuda_local<D, Reach> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                    std::source_location where) {
  using work_type = packet_work<C, T, Op, Reach>;
  device_channels<D, Reach>& channels = channels_of(ranks, stream, where);
  expect_packets(channels.map(), arrays.n * sizeof(T), where);
  static_cast<void>(blocks_of_rank<work_type>(ranks, 1, where));
  work_type work{.in = {},
                 .out = {},
                 .first = 0,
                 .channels = channels.map(),
                 .reach = {},
                 .ranks = ranks.size(),
                 .n = arrays.n,
                 .op = op};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  on_each_with_ranks(ranks, stream, [&](extent here, int k, stream_of<D> its) {
    work.first = static_cast<int>(here.begin);
    ranks.team().at(k).launch_together(its, static_cast<int>(here.count), work);
  });
}

// The host's part of a call, for a profiler, by bytes of a rank's message or longest block.
template <collective C, device D, class Reach>
shown_range show_launch(cuda_local<D, Reach> const& ranks, std::size_t bytes) {
  return show([&] { return join({name(C), " of ", bytes, " bytes among ", ranks.size(), " virtual ranks"}); }, bytes);
}

// Carries out a call as it asks: `jobs()` where it leaves the choice to tutti.
template <class Algorithm, collective C, class In, class Out, device D, class Reach, class Op, class Jobs>
void carry_out(cuda_local<D, Reach> const& ranks, std::vector<In const*> const& in, std::vector<Out*> const& out,
               std::size_t n, Op const& op, device_options<D> const& how, std::source_location where,
               Jobs const& jobs) {
  shown_range const shown = show_launch<C>(ranks, n * sizeof(In));
  if constexpr (std::is_same_v<Algorithm, automatic>) {
    if (how.algorithm != algorithm_id::automatic)
      refuse_call(join({"a device has ", name(how.algorithm), " only where the program names it by its type"}),
                  "write tutti::all_reduce<tutti::ring>(...), or tutti::list of types and choose one by its id", where);
    if (how.protocol != protocol::automatic)
      refuse_call(join({"protocol ", name(how.protocol), " goes with an algorithm, and the call names none"}),
                  "write tutti::all_reduce<tutti::one_shot>(...), or leave the protocol automatic", where);
    jobs();
  } else {
    static_assert(std::is_same_v<In, Out>, "an algorithm sends elements of one type; input and output differ");
    static_assert(!is_fused<Op>,
                  "an algorithm takes an operation; its prologue and epilogue are op.prepare and op.finish");
    using combined = std::conditional_t<reduces(C), Op, void>;
    named_algorithms<Algorithm>::template visit<C, combined>(how.algorithm, where, [&](auto schedule) {
      if (ranks.size() == 1 || n == 0) return jobs();
      local_arrays<In> const arrays{in, out, n};
      if constexpr (all_hear_all(C) && std::is_same_v<decltype(schedule), tutti::schedule<one_shot, C>>) {
        bool const small = n * sizeof(In) <= std::min(channels_of(ranks, how.stream, where).map().packet_bytes(),
                                                      device_limits{}.packets);
        if (how.protocol == protocol::packet || (how.protocol == protocol::automatic && small))
          return launch_packets<C>(ranks, arrays, op, how.stream, where);
      }
      if (how.protocol != protocol::automatic && how.protocol != protocol::staged)
        refuse_call(join({"protocol ", name(how.protocol), " cannot be had for this call on a device"}),
                    "leave the protocol automatic, or use one_shot for packets", where);
      launch_steps<C, decltype(schedule)>(ranks, arrays, op, how.stream, where);
    });
  }
}

// What only moves elements T, as words.
template <class Algorithm, collective C, class T, device D, class Reach, class In, class Out>
void move_blocks(cuda_local<D, Reach> const& ranks, In& in, int ins, std::size_t in_size, Out& out, int outs,
                 std::size_t out_size, std::size_t n, device_options<D> const& how, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  using word = word_of<T>;
  constexpr std::size_t words = words_in<T>;
  local_arrays<word> const arrays{addresses<word const*>("input", in, ins, in_size, where),
                                  addresses<word*>("output", out, outs, out_size, where), n * words};
  expect_apart<C>(arrays.in, arrays.out, in_size * words, out_size * words, n * words, where);
  carry_out<Algorithm, C>(ranks, arrays.in, arrays.out, arrays.n, bit_or{}, how, where,
                          [&] { launch_jobs<C>(ranks, arrays, word_moves, how.stream); });
}

template <class Algorithm, collective C, class T, device D, class Reach, class In, class Out, class Op>
void reduce_blocks(cuda_local<D, Reach> const& ranks, In& in, std::size_t in_size, Out& out, std::size_t n,
                   Op const& op, device_options<D> const& how, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  static_assert(
      C == collective::reduce_scatter || !finishes_result<Op, T>,
      "an operation with an epilogue, such as mean, has no meaning for the prefixes of a scan; use tutti::sum "
      "and divide");
  using form = device_form<Op, T>;
  local_arrays<form> const arrays{addresses<form const*>("input", in, ranks.size(), in_size, where),
                                  addresses<form*>("output", out, ranks.size(), n, where), n};
  expect_apart<C>(arrays.in, arrays.out, in_size, n, n, where);
  carry_out<Algorithm, C>(ranks, arrays.in, arrays.out, n, op, how, where,
                          [&] { launch_jobs<C>(ranks, arrays, in_stages<form>(op, ranks.size()), how.stream); });
}

}  // namespace tutti::detail
