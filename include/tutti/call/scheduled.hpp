// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that go through a schedule, or through packets.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "tutti/call/running_call.hpp"

namespace tutti::detail {

// Calls f(schedule) with the schedule that was named at compile time, or the one that was chosen.
template <class Algorithm, collective C, class F>
void with_schedule(algorithm_id chosen, F&& f) {
  if constexpr (std::is_same_v<Algorithm, automatic>) f(find_schedule(chosen, C));
  else f(schedule<Algorithm, C>{});
}

template <class Algorithm, collective C>
inline constexpr unlisted_algorithm unlisted{Algorithm::name, type_id<Algorithm>(),
                                             dynamic_schedule::of<schedule<Algorithm, C>>()};

// An algorithm that a user wrote runs its own schedule, whatever its name, and ranks must agree on it.
template <class Algorithm, collective C>
constexpr unlisted_algorithm const* unlisted_or_none() {
  if constexpr (!std::is_same_v<Algorithm, automatic> && !listed<Algorithm, algorithms> && serves<Algorithm, C>)
    return &unlisted<Algorithm, C>;
  else return nullptr;
}

// From this size on, the caller finds little of an output in a cache, and it is written past the caches: 8 MiB by two_shot
// on 2 ranks in 0.8 of the time, 128 MiB in 0.75 (AMD EPYC, Zen 4).
inline constexpr std::size_t streamed_output = std::size_t{8} << 20;

// Slices that are fetched are larger than slots, for half a microsecond a call of the system; all that are combined at once
// stay in a second-level cache.
constexpr std::size_t fetched_slice(int ranks) {
  std::size_t const share = (std::size_t{256} << 10) / static_cast<std::size_t>(ranks - 1);
  return share < slot_bytes ? slot_bytes : std::bit_floor(share);
}

// While a message is known to be short, each slice leaves at once, and none waits for its receiver to be asked.
template <class Transport>
constexpr std::size_t slice_for(std::size_t message, std::size_t element) {
  if constexpr (has_eager_limit<Transport>)
    if (message > 0 && message <= Transport::slice_bytes && element <= Transport::eager_bytes)
      return Transport::eager_bytes;
  return Transport::slice_bytes;
}

// Runs a call of at most most_in_packets bytes by packets.
template <collective C, class Transport, class Call, class Body>
void execute_packets(engine<Transport>& g, Call& call, request const& r, Body body, typename Body::element const* in,
                     typename Body::element* out) {
  if constexpr (shares_packets<Transport> || has_eager_limit<Transport>) {
    call.run([&] {
      return packet_execution<C, Transport, Body>(g.transport(), {g.ranks(), r.root}, in, out,
                                                  r.bytes() / sizeof(typename Body::element), body, call.tag(),
                                                  g.inbox());
    });
  }
}

// Runs the schedule of a call, or of a part of it, over these surfaces. Surfaces of collectives whose chunks are parts of
// one message need no layout; `elements` is its length then.
template <class Algorithm, collective C, class Transport, class Call, class Body>
void execute_schedule(engine<Transport>& g, Call& call, request const& r, Body body,
                      surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  using running = execution<Transport, dynamic_schedule, Body>;
  shape const s{g.ranks(), r.root, !r.commutative};
  with_schedule<Algorithm, C>(call.plan().algorithm, [&](auto schedule) {
    if constexpr (!by_block(C)) {
      constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
      int const lanes = schedule.lanes(s), chunks = schedule.chunks(s);
      for (layout* const where : {&memory.input.where, &memory.output.where, &memory.scratch.where})
        where->become_whole(elements, lanes, chunks, grain);
    }
    if (schedule.scratch) {
      bool const one_slice = schedule.pipelined && schedule.phases(s) == 1;
      memory.scratch.slice = one_slice ? running::slot_elements : 0;
      std::size_t const room =
          one_slice ? running::slot_elements * static_cast<std::size_t>(schedule.lanes(s)) : memory.scratch.where.end();
      memory.scratch.data = reinterpret_cast<T*>(g.scratch.at_least(room * sizeof(T)));
    }
    protocol const how = call.plan().how;
    bool const pulls = how == protocol::pull;
    if (memory.in_place && !(pulls ? schedule.direct_in_place : schedule.in_place)) {
      std::size_t const bytes = memory.input.where.end() * sizeof(T);
      std::byte* const copy = g.copy.at_least(bytes);
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
      if (Body::reduces) travel.fetched = g.fetched.at_least(travel.slice * static_cast<std::size_t>(s.ranks));
    }
    call.run(memory, [&](auto& placed) {
      return execution<Transport, decltype(schedule), Body>(g.transport(), &g.references, schedule, s, placed, body,
                                                            call.tag(), travel, r.ragged && r.counts == 0);
    });
  });
}

}  // namespace tutti::detail
