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

// Gives a schedule the memory that it needs besides the caller's, and decides how its messages travel. `elements`: of
// the message; if chunks are blocks, the surfaces have their layouts already.
template <collective C, class Transport, class Body, class Schedule>
access arrange(engine<Transport>& on, request const& r, protocol how, shape const& s, Schedule const& schedule,
               surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  if constexpr (!by_block(C)) {
    constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
    int const lanes = schedule.lanes(s), chunks = schedule.chunks(s);
    for (layout* const where : {&memory.input.where, &memory.output.where, &memory.scratch.where})
      where->become_whole(elements, lanes, chunks, grain);
  }
  if (schedule.scratch) {
    constexpr std::size_t slot = Transport::slice_bytes / sizeof(T);
    bool const one_slice = schedule.pipelined && schedule.phases(s) == 1;
    memory.scratch.slice = one_slice ? slot : 0;
    std::size_t const room =
        one_slice ? slot * static_cast<std::size_t>(schedule.lanes(s)) : memory.scratch.where.end();
    memory.scratch.data = reinterpret_cast<T*>(on.scratch.at_least(room * sizeof(T)));
  }
  bool const pulls = how == protocol::pull;
  if (memory.in_place && !(pulls ? schedule.direct_in_place : schedule.in_place)) {
    std::size_t const bytes = memory.input.where.end() * sizeof(T);
    std::byte* const copy = on.copy.at_least(bytes);
    if (bytes > 0) std::memcpy(copy, memory.input.data, bytes);
    memory.input.data = reinterpret_cast<T const*>(copy);
    memory.in_place = false;
  }
  bool const safe = memory.in_place ? schedule.direct_in_place : schedule.direct;
  access travel{.refers = safe && how != protocol::staged,
                .pulls = pulls,
                .slice = slice_for<Transport>(r.bytes(), sizeof(T)),
                .streams = memory.output.where.end() * sizeof(T) >= streamed_output};
  if (pulls) {
    travel.slice = fetched_slice(s.ranks);
    if (Body::reduces) travel.fetched = on.fetched.at_least(travel.slice * static_cast<std::size_t>(s.ranks));
  }
  return travel;
}

// The execution of a schedule on these surfaces, which must not move.
template <collective C, class Transport, class Body, class Schedule>
auto execution_of(engine<Transport>& on, begun_call<Transport> const& begun, request const& r, Schedule schedule,
                  Body body, surfaces<typename Body::element>& memory, std::size_t elements) {
  shape const s{on.ranks(), r.root, !r.commutative};
  access const travel = arrange<C, Transport, Body>(on, r, begun.plan().how, s, schedule, memory, elements);
  return execution<Transport, Schedule, Body>(on.transport(), &on.references, schedule, s, memory, body, begun.tag(),
                                              travel, r.ragged && r.counts == 0);
}

// The schedule that was named at compile time, or the chosen one.
template <class Algorithm, collective C>
auto schedule_for(algorithm_id chosen) {
  if constexpr (std::is_same_v<Algorithm, automatic>) return find_schedule(chosen, C);
  else return schedule<Algorithm, C>{};
}

// Whether packets, or a schedule, may carry out a call.
template <class Transport, class Call>
inline constexpr bool may_be_packets =
    !decltype(Call::memory)::ragged && (shares_packets<Transport> || has_eager_limit<Transport>);
template <class Call>
inline constexpr bool may_be_scheduled =
    !std::is_same_v<typename Call::algorithm, native> && !in_two_levels<typename Call::algorithm>;

struct no_execution {
  progress poll() noexcept { return progress::done; }
  protocol_violation const& found() const noexcept { return nothing; }
  protocol_violation nothing{};
};
template <class Transport, class Call, bool Possible = may_be_packets<Transport, Call>>
struct packets_type {
  using type = no_execution;
};
template <class Transport, class Call>
struct packets_type<Transport, Call, true> {
  using type = packet_execution<Call::what, Transport, typename Call::body_type>;
};
template <class Transport, class Call>
using packets_for = typename packets_type<Transport, Call>::type;
template <class Transport, class Call>
using slices_for =
    execution<Transport, decltype(schedule_for<typename Call::algorithm, Call::what>({})), typename Call::body_type>;

template <class Transport, class Call>
auto packets_of(engine<Transport>& on, begun_call<Transport> const& begun, Call& c) {
  return packet_execution<Call::what, Transport, typename Call::body_type>(
      on.transport(), {on.ranks(), c.asked.root}, c.memory.in, c.memory.out, c.memory.elements(c.asked), c.body,
      begun.tag(), on.inbox());
}
// Fills in `memory`, which must not move.
template <class Transport, class Call>
auto slices_of(engine<Transport>& on, begun_call<Transport> const& begun, Call& c,
               surfaces<typename Call::element>& memory) {
  c.memory.lay_out(memory, c.asked, on.rank(), on.ranks());
  std::size_t elements = 0;
  if constexpr (!by_block(Call::what)) elements = c.memory.elements(c.asked);
  return execution_of<Call::what>(on, begun, c.asked,
                                  schedule_for<typename Call::algorithm, Call::what>(begun.plan().algorithm), c.body,
                                  memory, elements);
}

}  // namespace tutti::detail
