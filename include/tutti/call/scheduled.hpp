// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Carries out a call that has begun: by packets, by messages in one piece, or slice by slice by a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tutti/call/begun_call.hpp"
#include "tutti/call/gapped_memory.hpp"
#include "tutti/core/is_a.hpp"

namespace tutti::detail {

// From this size on, little of an output stays in a cache, so it is written by streaming stores. If it is combined, 8 MiB by two_shot
// on 2 ranks take 0.8 of the time, and 128 MiB 0.75 (AMD EPYC, Zen 4). If it is only moved, 8 MiB by all_gather take 1.2 times as
// long with them (Granite Rapids).
constexpr std::size_t streamed_output(bool combined) { return std::size_t{combined ? 8u : 32u} << 20; }

// While a message is known to be short, each slice leaves at once, without asking whether its receiver is waiting.
template <class Transport>
constexpr std::size_t slice_for(std::size_t message, std::size_t element) {
  if constexpr (has_eager_limit<Transport>)
    if (message > 0 && message <= Transport::slice_bytes && element <= Transport::eager_bytes)
      return Transport::eager_bytes;
  return Transport::slice_bytes;
}

// Copies an input, which the call reads from there.
template <class Layout>
void read_copy(surface<std::byte const, Layout>& input, std::byte* copy, std::size_t bytes) {
  if constexpr (has_windows<Layout>) {
    input.where.must_be_copied = false;
    if (input.where.array.has_gaps()) {
      input.where.array.gather(0, bytes, copy);
      input.where.array = {};
      input.data = copy;
      return;
    }
  }
  if (bytes > 0) std::memcpy(copy, input.data, bytes);
  input.data = copy;
}

// Gives arrays with gaps their windows. Only what lies in these, or has no gaps, can be referred to.
template <class Transport>
void place_windows(engine<Transport>& on, access& travel, int tracks, surfaces<std::byte, gapped_layout>& memory) {
  gapped_layout &in = memory.input.where, &out = memory.output.where;
  if (!in.array.has_gaps() && !out.array.has_gaps()) return;
  travel.refers = travel.pulls;
  travel.streams &= !out.array.has_gaps();
  std::size_t const slice = (travel.slice + cache_line - 1) / cache_line * cache_line;
  std::size_t const all = slice_windows::bytes(slice, travel.pulls ? tracks : 0, on.ranks());
  in.windows = out.windows = slice_windows(on.windows.at_least(all), slice, on.rank(), on.ranks());
}

// Gives a schedule the memory that it needs besides the caller's, and decides how its messages travel. Where chunks
// are blocks, the surfaces have their layouts already.
template <class Transport, class Layout>
access arrange(engine<Transport>& on, request const& r, protocol how, shape const& s, dynamic_schedule const& schedule,
               byte_body body, surfaces<std::byte, Layout>& memory) {
  std::size_t const element_bytes = body.loop->element_bytes;
  if (!by_block(r.what)) {
    std::size_t const grain = element_bytes < cache_line ? cache_line - cache_line % element_bytes : element_bytes;
    int const lanes = schedule.lanes(s), chunks = schedule.chunks(s);
    for (layout* const where : {&memory.input.where, &memory.output.where, &memory.scratch.where})
      where->become_whole(r.bytes(), lanes, chunks, grain);
  }
  if (schedule.scratch) {
    std::size_t const slot = body.whole_elements(Transport::slice_bytes);
    bool const one_slice = schedule.pipelined && schedule.phases(s) == 1;
    memory.scratch.slice = one_slice ? slot : 0;
    memory.scratch.data = on.scratch.at_least(one_slice ? slot * static_cast<std::size_t>(schedule.lanes(s))
                                                        : memory.scratch.where.end());
  }
  bool const pulls = how == protocol::pull;
  bool copies = memory.in_place && !(pulls ? schedule.direct_in_place : schedule.in_place);
  if constexpr (has_windows<Layout>) copies |= memory.input.where.must_be_copied;
  if (copies) {
    std::size_t const all = memory.input.where.end();
    read_copy(memory.input, on.copy.at_least(all), all);
    memory.in_place = false;
  }
  bool const safe = memory.in_place ? schedule.direct_in_place : schedule.direct;
  access travel{.refers = safe && how != protocol::staged,
                .pulls = pulls,
                .slice = slice_for<Transport>(r.bytes(), element_bytes),
                .streams = memory.output.where.end() >= streamed_output(reduces(r.what))};
  if (pulls) {
    travel.slice = fetched_slice(s.ranks, reduces(r.what));
    if (reduces(r.what)) travel.fetched = on.fetched.at_least(travel.slice * static_cast<std::size_t>(s.ranks));
  }
  if constexpr (has_windows<Layout>) place_windows(on, travel, schedule.lanes(s) * schedule.phases(s), memory);
  else if constexpr (maps_memory<Transport>)
    if (travel.refers && !pulls && schedule.fetchable && !schedule.pipelined &&
        (r.ragged || r.bytes() > travel.slice)) {
      auto const shown = [&](auto const& array) { return on.transport().is_shared(array.data, array.where.end()); };
      travel.shows_input = !r.prepares && shown(memory.input);
      travel.shows_output = shown(memory.output);
    }
  return travel;
}

template <class Call>
inline constexpr bool may_be_scheduled =
    !std::is_same_v<typename Call::algorithm, native> && !is_a<typename Call::algorithm, two_level>;

// Calls that were started earlier end first.
template <class Transport>
void finish_started(engine<Transport>& on) {
  if (pending_calls* const calls = on.started.get()) calls->finish();
  if constexpr (has_levels<Transport>)
    if (auto* const node = on.levels->only_node()) finish_started(node->engine());
}

// How a rank carries out its part of a call. Some ranks of a call may send eager messages and others slices.
enum class execution_kind : std::uint8_t { packets, eager, slices };

template <class Transport, class Memory>
inline constexpr bool may_be_packets = !Memory::ragged && shares_packets<Transport>;
template <class Transport, class Memory>
inline constexpr bool may_be_eager = !Memory::ragged && (shares_packets<Transport> || has_eager_limit<Transport>);

template <class Transport, class Memory>
execution_kind kind_of(engine<Transport>& on, plan const& p, request const& r, Memory const& memory) {
  if constexpr (may_be_eager<Transport, Memory>) {
    if (p.how == protocol::packet) return shares_packets<Transport> ? execution_kind::packets : execution_kind::eager;
    if constexpr (maps_memory<Transport>) {
      constexpr std::size_t longest = is_a<Memory, gapped_memory> ? max_packet_bytes : Transport::slice_bytes;
      bool stages = p.how == protocol::staged;
      if constexpr (!is_a<Memory, gapped_memory>)
        stages |= p.how != protocol::pull && !on.transport().is_shared(memory.in, r.bytes());
      if (stages && p.algorithm == algorithm_id::one_shot && r.count > 0 && r.bytes() <= longest)
        return execution_kind::eager;
    }
  }
  return execution_kind::slices;
}

// The execution of a call by packets, by eager messages, and by the slices of its schedule. The surfaces must stay where they are.
template <collective C, class Transport>
[[gnu::always_inline]] inline packet_execution<C, Transport> packets_of(engine<Transport>& on,
                                                                        begun_call<Transport> const& begun,
                                                                        request const& r, byte_body body,
                                                                        void const* in, void* out) {
  return packet_execution<C, Transport>(on.transport(), {on.ranks(), r.root}, static_cast<std::byte const*>(in),
                                        static_cast<std::byte*>(out), r.bytes(), body, begun.tag(), on.inbox());
}
template <collective C, class Transport>
[[gnu::always_inline]] inline eager_execution<C, Transport> eager_of(engine<Transport>& on,
                                                                     begun_call<Transport> const& begun,
                                                                     request const& r, byte_body body, void const* in,
                                                                     void* out) {
  return eager_execution<C, Transport>(on.transport(), {on.ranks(), r.root}, static_cast<std::byte const*>(in),
                                       static_cast<std::byte*>(out), r.bytes(), body, begun.tag());
}
template <class Transport, class Layout = layout>
using slices_for = execution<Transport, dynamic_schedule, byte_body, Layout>;
template <class Transport, class Layout>
[[gnu::always_inline]] inline slices_for<Transport, Layout> slices_of(engine<Transport>& on,
                                                                      begun_call<Transport> const& begun,
                                                                      request const& r,
                                                                      dynamic_schedule const& schedule, byte_body body,
                                                                      surfaces<std::byte, Layout>& memory) {
  shape const s{on.ranks(), r.root, !r.commutative};
  access const travel = arrange(on, r, begun.plan().how, s, schedule, body, memory);
  return slices_for<Transport, Layout>(on.transport(), &on.references, schedule, s, memory, body, begun.tag(), travel,
                                       r.ragged && r.sizes == 0);
}

// The memory of a call with contiguous copies in place of arrays with gaps.
template <collective C, class Transport, class Memory>
Memory pack(engine<Transport>& on, gapped_memory<Memory> const& buffers) {
  bool const keeps = Memory::ragged || C == collective::exclusive_scan;
  return buffers.pack(on.windows.at_least(buffers.packed_bytes()), keeps);
}
template <class Transport, class Memory>
void unpack(engine<Transport>& on, gapped_memory<Memory> const& buffers) {
  buffers.unpack(on.windows.at_least(buffers.packed_bytes()));
}
template <collective C, class Transport, class Memory>
Memory const& pack(engine<Transport>&, Memory const& buffers) {
  return buffers;
}
template <class Transport, class Memory>
void unpack(engine<Transport>&, Memory const&) {}

// Drives a call that has begun to completion. Arrays with gaps are copied as a whole if the message is not cut into slices.
template <collective C, class Transport, class Memory>
[[gnu::always_inline]] inline void carry_out(engine<Transport>& on, begun_call<Transport>& begun, request const& r,
                                             byte_body body, Memory const& buffers) {
  execution_kind const kind = kind_of(on, begun.plan(), r, buffers);
  if constexpr (may_be_packets<Transport, Memory>)
    if (kind == execution_kind::packets) {
      auto const& all = pack<C>(on, buffers);
      auto packets = packets_of<C>(on, begun, r, body, all.in, all.out);
      begun.drive(packets);
      return unpack(on, buffers);
    }
  if constexpr (may_be_eager<Transport, Memory>)
    if (kind == execution_kind::eager) {
      auto const& all = pack<C>(on, buffers);
      auto messages = eager_of<C>(on, begun, r, body, all.in, all.out);
      begun.drive(messages);
      return unpack(on, buffers);
    }
  surfaces<std::byte, layout_for<Memory>> memory{.input = {}, .output = {}, .scratch = {}};
  buffers.lay_out(memory, r, on.rank(), on.ranks());
  auto slices = slices_of(on, begun, r, schedule_of<C>(r, begun.plan().algorithm), body, memory);
  begun.drive(slices);
}

// A call of any element type and operation. Its functions are outside the class, where `extern template` keeps other
// programs from compiling them.
template <collective C, class Transport, class Memory>
struct call_in_bytes {
  static void complete(engine<Transport>& on, call_terms const& call, byte_body body, Memory const& memory);
  // For a call that is only started.
  static slices_for<Transport, layout_for<Memory>> slices(engine<Transport>& on, begun_call<Transport> const& begun,
                                                          request const& r, byte_body body, Memory const& memory,
                                                          surfaces<std::byte, layout_for<Memory>>& surfaces);
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
slices_for<Transport, layout_for<Memory>> call_in_bytes<C, Transport, Memory>::slices(
    engine<Transport>& on, begun_call<Transport> const& begun, request const& r, byte_body body, Memory const& memory,
    surfaces<std::byte, layout_for<Memory>>& surfaces) {
  memory.lay_out(surfaces, r, on.rank(), on.ranks());
  return slices_of(on, begun, r, schedule_of<C>(r, begun.plan().algorithm), body, surfaces);
}

// The buffers of a call that are the same for all element types.
template <template <class> class Shape, class T>
  requires(!Shape<T>::ragged)
Shape<std::byte> memory_in_bytes(Shape<T> const& m) {
  return {reinterpret_cast<std::byte const*>(m.in), reinterpret_cast<std::byte*>(m.out), m.in_place};
}
template <class Memory>
Memory const& memory_in_bytes(Memory const& m) {
  return m;
}
template <template <class> class Shape, class T>
  requires(!Shape<T>::ragged)
gapped_memory<Shape<std::byte>> memory_in_bytes(gapped_memory<Shape<T>> const& m) {
  gapped_memory<Shape<std::byte>> out(memory_in_bytes(static_cast<Shape<T> const&>(m)));
  out.input = m.input, out.output = m.output, out.overlap = m.overlap;
  return out;
}
template <class Transport, class Call>
using in_bytes = call_in_bytes<Call::what, Transport,
                               std::remove_cvref_t<decltype(memory_in_bytes(std::declval<Call const&>().memory))>>;

}  // namespace tutti::detail
