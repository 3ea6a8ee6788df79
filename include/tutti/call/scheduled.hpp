// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Carries out a call that has begun: by packets, or slice by slice by a schedule.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "tutti/call/begun_call.hpp"

namespace tutti::detail {

// From this size on, little of an output stays in a cache, so it is written by streaming stores: 8 MiB by two_shot on 2
// ranks take 0.8 of the time, 128 MiB 0.75 (AMD EPYC, Zen 4).
inline constexpr std::size_t streamed_output = std::size_t{8} << 20;

// Fetched slices are larger than slots, because each costs a system call of half a microsecond; all slices that are
// combined at once fit a second-level cache.
constexpr std::size_t fetched_slice(int ranks) {
  std::size_t const share = (std::size_t{256} << 10) / static_cast<std::size_t>(ranks - 1);
  return share < slot_bytes ? slot_bytes : std::bit_floor(share);
}

// While a message is known to be short, each slice leaves at once, without asking whether its receiver is waiting.
template <class Transport>
constexpr std::size_t slice_for(std::size_t message, std::size_t element) {
  if constexpr (has_eager_limit<Transport>)
    if (message > 0 && message <= Transport::slice_bytes && element <= Transport::eager_bytes)
      return Transport::eager_bytes;
  return Transport::slice_bytes;
}

// Gives a schedule the memory that it needs besides the caller's, and decides how its messages travel. `bytes`: of the
// message; where chunks are blocks, the surfaces have their layouts already.
template <class Transport>
access arrange(engine<Transport>& on, request const& r, protocol how, shape const& s, dynamic_schedule const& schedule,
               byte_body body, surfaces<std::byte>& memory, std::size_t bytes) {
  std::size_t const element_bytes = body.loop->element_bytes;
  if (!by_block(r.what)) {
    std::size_t const grain = element_bytes < cache_line ? cache_line - cache_line % element_bytes : element_bytes;
    int const lanes = schedule.lanes(s), chunks = schedule.chunks(s);
    for (layout* const where : {&memory.input.where, &memory.output.where, &memory.scratch.where})
      where->become_whole(bytes, lanes, chunks, grain);
  }
  if (schedule.scratch) {
    std::size_t const slot = body.whole_elements(Transport::slice_bytes);
    bool const one_slice = schedule.pipelined && schedule.phases(s) == 1;
    memory.scratch.slice = one_slice ? slot : 0;
    memory.scratch.data = on.scratch.at_least(one_slice ? slot * static_cast<std::size_t>(schedule.lanes(s))
                                                        : memory.scratch.where.end());
  }
  bool const pulls = how == protocol::pull;
  if (memory.in_place && !(pulls ? schedule.direct_in_place : schedule.in_place)) {
    std::size_t const all = memory.input.where.end();
    std::byte* const copy = on.copy.at_least(all);
    if (all > 0) std::memcpy(copy, memory.input.data, all);
    memory.input.data = copy;
    memory.in_place = false;
  }
  bool const safe = memory.in_place ? schedule.direct_in_place : schedule.direct;
  access travel{.refers = safe && how != protocol::staged,
                .pulls = pulls,
                .slice = slice_for<Transport>(r.bytes(), element_bytes),
                .streams = memory.output.where.end() >= streamed_output};
  if (pulls) {
    travel.slice = fetched_slice(s.ranks);
    if (reduces(r.what)) travel.fetched = on.fetched.at_least(travel.slice * static_cast<std::size_t>(s.ranks));
  }
  return travel;
}

// Whether packets, or a schedule, may carry out a call.
template <class Transport, class Memory>
inline constexpr bool may_be_packets = !Memory::ragged && (shares_packets<Transport> || has_eager_limit<Transport>);
template <class Call>
inline constexpr bool may_be_scheduled =
    !std::is_same_v<typename Call::algorithm, native> && !in_two_levels<typename Call::algorithm>;

// Calls that were started earlier end first.
template <class Transport>
void finish_started(engine<Transport>& on) {
  if (pending_calls* const calls = on.started.get()) calls->finish();
  if constexpr (has_levels<Transport>)
    if (auto* const node = on.levels->only_node()) finish_started(node->engine());
}

// The execution of a call by packets, and by the slices of its schedule. The surfaces must stay where they are. `bytes`: of
// the message.
template <collective C, class Transport>
[[gnu::always_inline]] inline packet_execution<C, Transport> packets_of(engine<Transport>& on,
                                                                        begun_call<Transport> const& begun,
                                                                        request const& r, byte_body body,
                                                                        void const* in, void* out) {
  return packet_execution<C, Transport>(on.transport(), {on.ranks(), r.root}, static_cast<std::byte const*>(in),
                                        static_cast<std::byte*>(out), r.bytes(), body, begun.tag(), on.inbox());
}
template <class Transport>
using slices_for = execution<Transport, dynamic_schedule, byte_body>;
template <class Transport>
[[gnu::always_inline]] inline slices_for<Transport> slices_of(engine<Transport>& on, begun_call<Transport> const& begun,
                                                              request const& r, dynamic_schedule const& schedule,
                                                              byte_body body, surfaces<std::byte>& memory,
                                                              std::size_t bytes) {
  shape const s{on.ranks(), r.root, !r.commutative};
  access const travel = arrange(on, r, begun.plan().how, s, schedule, body, memory, bytes);
  return slices_for<Transport>(on.transport(), &on.references, schedule, s, memory, body, begun.tag(), travel,
                               r.ragged && r.counts == 0);
}

// Drives a call that has begun to completion.
template <collective C, class Transport, class Memory>
[[gnu::always_inline]] inline void carry_out(engine<Transport>& on, begun_call<Transport>& begun, request const& r,
                                             byte_body body, Memory const& buffers) {
  if constexpr (may_be_packets<Transport, Memory>)
    if (begun.plan().how == protocol::packet) {
      auto packets = packets_of<C>(on, begun, r, body, buffers.in, buffers.out);
      return begun.drive(packets);
    }
  surfaces<std::byte> memory{.input = {}, .output = {}, .scratch = {}};
  buffers.lay_out(memory, r, on.rank(), on.ranks());
  auto slices = slices_of(on, begun, r, schedule_of<C>(r, begun.plan().algorithm), body, memory, r.bytes());
  begun.drive(slices);
}

// A call of any element type and operation. Its functions are outside the class, where `extern template` keeps other
// programs from compiling them.
template <collective C, class Transport, class Memory>
struct call_in_bytes {
  static void complete(engine<Transport>& on, call_terms const& call, byte_body body, Memory const& memory);
  // For calls that are only started.
  static packet_execution<C, Transport> packets(engine<Transport>& on, begun_call<Transport> const& begun,
                                                request const& r, byte_body body, Memory const& memory)
    requires may_be_packets<Transport, Memory>;
  static slices_for<Transport> slices(engine<Transport>& on, begun_call<Transport> const& begun, request const& r,
                                      byte_body body, Memory const& memory, surfaces<std::byte>& surfaces);
};
template <collective C, class Transport, class Memory>
void call_in_bytes<C, Transport, Memory>::complete(engine<Transport>& on, call_terms const& call, byte_body body,
                                                   Memory const& memory) try {
  finish_started(on);
  begun_call<Transport> begun(on, call);
  carry_out<C>(on, begun, call.asked, body, memory);
  begun.finish();
} catch (...) {
  on.stop_in_flight_if_faulty();
  throw;
}
template <collective C, class Transport, class Memory>
packet_execution<C, Transport> call_in_bytes<C, Transport, Memory>::packets(engine<Transport>& on,
                                                                            begun_call<Transport> const& begun,
                                                                            request const& r, byte_body body,
                                                                            Memory const& memory)
  requires may_be_packets<Transport, Memory>
{
  return packets_of<C>(on, begun, r, body, memory.in, memory.out);
}
template <collective C, class Transport, class Memory>
slices_for<Transport> call_in_bytes<C, Transport, Memory>::slices(engine<Transport>& on,
                                                                  begun_call<Transport> const& begun, request const& r,
                                                                  byte_body body, Memory const& memory,
                                                                  surfaces<std::byte>& surfaces) {
  memory.lay_out(surfaces, r, on.rank(), on.ranks());
  return slices_of(on, begun, r, schedule_of<C>(r, begun.plan().algorithm), body, surfaces, r.bytes());
}

// The buffers of a call that are the same for all element types.
template <class T>
array_memory<std::byte> memory_in_bytes(array_memory<T> const& m) {
  return {reinterpret_cast<std::byte const*>(m.in), reinterpret_cast<std::byte*>(m.out), m.in_place};
}
template <class T>
block_memory<std::byte> memory_in_bytes(block_memory<T> const& m) {
  return {reinterpret_cast<std::byte const*>(m.in), reinterpret_cast<std::byte*>(m.out), m.in_place};
}
template <class Memory>
Memory const& memory_in_bytes(Memory const& m) {
  return m;
}
template <class Transport, class Call>
using in_bytes = call_in_bytes<Call::what, Transport,
                               std::remove_cvref_t<decltype(memory_in_bytes(std::declval<Call const&>().memory))>>;

}  // namespace tutti::detail
