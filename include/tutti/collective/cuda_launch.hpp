// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How calls of virtual ranks are launched: as independent jobs, or as ranks that send each other messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tutti/collective/cuda_ranks.hpp"
#include "tutti/collective/legal.hpp"
#include "tutti/execute/cuda_jobs.hpp"
#include "tutti/execute/cuda_packet.hpp"
#include "tutti/execute/cuda_steps.hpp"

namespace tutti::detail {

// The arrays of all ranks, or that of a root alone; n elements of the message, or of a block.
template <class T>
struct local_arrays {
  std::vector<T const*> in;
  std::vector<T*> out;
  std::size_t n;
};

// T is the type in which elements are combined or moved; the longest block has arrays.n of them.
template <collective C, class T, class Blocks, device D, class How>
void launch_jobs(cuda_local<D> const& ranks, local_arrays<T> const& arrays, Blocks const& blocks, How const& how,
                 stream_of<D> stream) {
  local_work<C, T, How, Blocks> work{.in = {}, .out = {}, .plan = {ranks.size()}, .blocks = blocks, .how = how};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  std::size_t const warps = arrays.n / device_pack<T> / warp_threads + 1;
  ranks.on().launch(stream, static_cast<std::size_t>(work.plan.jobs()) * warps * warp_threads, work);
}
template <collective C, class T, device D, class How>
void launch_jobs(cuda_local<D> const& ranks, local_arrays<T> const& arrays, How const& how, stream_of<D> stream) {
  if (arrays.n == 0) return;
  launch_jobs<C>(ranks, arrays, even_blocks{arrays.n}, how, stream);
}

[[gnu::cold, noreturn]] inline void refuse_call(text_part const& what, text_part const& way_out,
                                                std::source_location where) {
  throw error({.code = error_code::bad_argument,
               .what = std::string(what.view()),
               .way_out = std::string(way_out.view()),
               .where = where});
}

template <device D>
device_channels<D>& channels_of(cuda_local<D> const& ranks, stream_of<D> stream, std::source_location where) {
  if (ranks.channels() == nullptr)
    refuse_call("an algorithm sends messages between ranks, for which this cuda_local has no channels",
                "make it of tutti::device_channels(gpu, ranks)", where);
  ranks.channels()->expect_stream(stream, where);
  return *ranks.channels();
}

// How many blocks work for a rank, as far as the device runs all of them at once.
template <class Work, device D>
int blocks_of_rank(cuda_local<D> const& ranks, int wanted, std::source_location where) {
  int const most = ranks.on().template blocks_at_once<Work>();
  if (most < ranks.size())
    refuse_call(join({ranks.size(), " ranks are to send each other messages on a device that runs ", most,
                      " blocks of this kernel at once"}),
                "ask for fewer ranks, or leave the algorithm automatic", where);
  return std::min(wanted, most / ranks.size());
}

template <collective C, class T>
bool is_in_place(local_arrays<T> const& arrays, std::size_t rank) {
  if (rank >= arrays.in.size() || rank >= arrays.out.size()) return false;
  T const *const in = arrays.in[rank], *const out = arrays.out[rank];
  std::size_t const block = rank * arrays.n;
  if (C == collective::reduce_scatter) return out == in + block;
  if (C == collective::all_gather) return in == out + block;
  return in == out;
}

template <collective C, class Schedule, class T, device D, class Op>
void launch_steps(cuda_local<D> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                  std::source_location where) {
  using work_type = steps_work<C, Schedule, T, Op>;
  constexpr Schedule schedule{};
  device_channels<D>& channels = channels_of(ranks, stream, where);
  auto const size = static_cast<std::size_t>(ranks.size());
  shape const of{ranks.size(), 0, !is_commutative<Op>};
  int const lanes = schedule.lanes(of), chunks = schedule.chunks(of);
  if (lanes * chunks > work_type::most_chunks)
    refuse_call(join({"a schedule of ", lanes * chunks, " chunks on a device, which takes ", work_type::most_chunks}),
                "use another algorithm, or fewer ranks", where);
  channel_map const& map = channels.map();
  if (sizeof(T) > map.slice)
    refuse_call(join({"an element of ", sizeof(T), " bytes does not fit a slice of ", map.slice}),
                "make device_channels with longer slices", where);

  constexpr std::size_t grain =
      sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;  // of the host, for the same chunks
  layout const whole =
      by_block(C) ? layout::blocks(arrays.n, ranks.size()) : layout::whole(arrays.n, lanes, chunks, grain);
  std::size_t const shares = (whole.at(0, 0).count * sizeof(T) + channels.share() - 1) / channels.share();
  int const blocks = blocks_of_rank<work_type>(
      ranks, static_cast<int>(std::clamp<std::size_t>(shares, 1, static_cast<std::size_t>(map.blocks))), where);

  // Behind each other: copies of inputs that the schedule would overwrite too early, and its scratch.
  constexpr std::size_t aligned = device_line;
  auto const round_up = [](std::size_t bytes) { return (bytes + aligned - 1) / aligned * aligned; };
  std::size_t const all = by_block(C) ? arrays.n * size : arrays.n;
  std::size_t const input_bytes = round_up((!by_block(C) || deals(C) ? all : arrays.n) * sizeof(T));
  std::size_t const partial =
      work_type::one_slice(schedule, of) ? static_cast<std::size_t>(blocks * lanes) * (map.slice / sizeof(T)) : all;
  std::size_t const scratch_bytes = schedule.scratch ? round_up(partial * sizeof(T)) : 0;
  std::size_t const copy_bytes = schedule.in_place ? 0 : input_bytes;
  std::byte* const memory =
      scratch_bytes + copy_bytes > 0 ? channels.scratch(size * (scratch_bytes + copy_bytes)) : nullptr;

  work_type work{.in = {},
                 .out = {},
                 .scratch = memory + size * copy_bytes,
                 .scratch_bytes = scratch_bytes,
                 .channels = map,
                 .of = of,
                 .whole = whole,
                 .blocks = blocks,
                 .op = op};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  if (!schedule.in_place)
    for (std::size_t r = 0; r < size; ++r)
      if (is_in_place<C>(arrays, r)) {
        std::byte* const copy = memory + r * copy_bytes;
        ranks.on().copy(stream, copy, arrays.in[r], copy_bytes);
        work.in[r] = reinterpret_cast<T const*>(copy);
      }
  ranks.on().launch_together(stream, ranks.size() * blocks, work);
}

template <collective C, class T, device D, class Op>
void launch_packets(cuda_local<D> const& ranks, local_arrays<T> const& arrays, Op const& op, stream_of<D> stream,
                    std::source_location where) {
  using work_type = packet_work<C, T, Op>;
  device_channels<D>& channels = channels_of(ranks, stream, where);
  if (arrays.n * sizeof(T) > channels.packet_bytes())
    refuse_call(join({"packets of ", arrays.n * sizeof(T), " bytes among ", ranks.size(), " ranks, where ",
                      channels.packet_bytes(), " are the most"}),
                "leave the protocol automatic", where);
  static_cast<void>(blocks_of_rank<work_type>(ranks, 1, where));
  work_type work{.in = {}, .out = {}, .packets = channels.packets(), .ranks = ranks.size(), .n = arrays.n, .op = op};
  std::ranges::copy(arrays.in, work.in);
  std::ranges::copy(arrays.out, work.out);
  ranks.on().launch_together(stream, ranks.size(), work);
}

// Calls f(schedule) for the algorithm that the call names: by its type, or by its id out of a list of types.
template <class Algorithm>
struct named_algorithms {
  template <collective C, class Op, class F>
  static void visit(algorithm_id chosen, std::source_location where, F const& f) {
    expect_legal<Algorithm, C, Op>();
    if (chosen != algorithm_id::automatic && name(chosen) != Algorithm::name)
      refuse_call(join({"the call names ", Algorithm::name, " by its type and ", name(chosen), " in its options"}),
                  "name one of them", where);
    if constexpr (serves<Algorithm, C>) f(schedule<Algorithm, C>{});
  }
};
template <class... Algorithms>
struct named_algorithms<list<Algorithms...>> {
  template <collective C, class Op, class F>
  static void visit(algorithm_id chosen, std::source_location where, F const& f) {
    if (!(visit_one<Algorithms, C, Op>(chosen, f) || ...))
      refuse_call(join({name(chosen), " is none of the listed algorithms that serve this call"}),
                  "name one of the list by its id", where);
  }

 private:
  template <class Algorithm, collective C, class Op, class F>
  static bool visit_one(algorithm_id chosen, F const& f) {
    if (name(chosen) != Algorithm::name) return false;
    if constexpr (serves<Algorithm, C>) {
      if constexpr (std::is_void_v<Op> || is_commutative<Op> || !schedule<Algorithm, C>::needs_commutative) {
        f(schedule<Algorithm, C>{});
        return true;
      }
    }
    return false;
  }
};

// Carries out a call as it asks: `jobs()` where it leaves the choice to tutti.
template <class Algorithm, collective C, class In, class Out, device D, class Op, class Jobs>
void carry_out(cuda_local<D> const& ranks, std::vector<In const*> const& in, std::vector<Out*> const& out,
               std::size_t n, Op const& op, device_options<D> const& how, std::source_location where,
               Jobs const& jobs) {
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
        bool const small = n * sizeof(In) <= channels_of(ranks, how.stream, where).packet_bytes();
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
template <class Algorithm, collective C, class T, device D, class In, class Out>
void move_blocks(cuda_local<D> const& ranks, In& in, int ins, std::size_t in_size, Out& out, int outs,
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

template <class Algorithm, collective C, class T, device D, class In, class Out, class Op>
void reduce_blocks(cuda_local<D> const& ranks, In& in, std::size_t in_size, Out& out, std::size_t n, Op const& op,
                   device_options<D> const& how, std::source_location where) {
  static_assert(std::is_same_v<T, device_element<Out>>, "inputs and outputs have different element types");
  static_assert(
      C == collective::reduce_scatter || !has_finish<Op, accumulator_for<Op, T>>,
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
