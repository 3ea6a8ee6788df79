// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Performs a call on the object that stands for its ranks: a communicator drives it to completion; async(comm),
// prepared(comm) and a batch keep it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tutti/call/levels.hpp"
#include "tutti/call/native.hpp"
#include "tutti/call/packed_arrays.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/is_a.hpp"

namespace tutti {
namespace detail {

// A stand-in for a communicator: `returned` is the type that its defer(call, packing), not checked here because it is a template,
// returns.
template <class Comm>
concept defers_calls = requires(Comm& comm) {
  typename Comm::returned;
  comm.blocking();
};

template <class Comm>
struct returns {
  using type = void;
};
template <defers_calls Comm>
struct returns<Comm> {
  using type = typename Comm::returned;
};

}  // namespace detail

// The first argument of a collective: a communicator, async or prepared of one, or a batch.
template <class Comm>
concept communicating =
    detail::is_communicator<std::remove_reference_t<Comm>> || detail::defers_calls<std::remove_reference_t<Comm>>;

namespace detail {

// What a collective returns: a work on async(comm), a persistent on prepared(comm), and nothing on a communicator or in a batch.
template <communicating Comm>
using returned_by = typename returns<std::remove_reference_t<Comm>>::type;

// Notes why this call was refused, for peers that wait for it in vain if this rank then leaves. Does nothing for ranks of devices.
template <class Comm>
[[gnu::cold, gnu::noinline]] void note_refusal(Comm& comm, error const& e) {
  if constexpr (defers_calls<Comm>) {
    try {
      note_refusal(comm.blocking(), e);
    } catch (error const&) {  // a batch that has outlived its communicator; the call was refused because of that
    }
  } else if constexpr (is_communicator<Comm>) {
    if (comm.size() > 1) comm.engine().note_refusal(e);
  }
}

// Returns f(), which checks a call's arguments and makes the call. If it throws, peers can learn why, see note_refusal.
template <class Comm, class F>
[[gnu::always_inline]] inline decltype(auto) noting_refusals(Comm& comm, F&& f) {
  try {
    return f();
  } catch (error const& e) {
    note_refusal(comm, e);
    throw;
  }
}

// The communicator that carries out a call, or null. If all ranks are on one node, the node's communicator carries out every
// call that asks neither for the library nor for levels, and every message. Throws a fault of the whole, after which what the node has
// in flight ends too.
template <class Algorithm, class Transport>
auto* node_for(communicator<Transport>& comm, algorithm_id asked, std::source_location where) {
  if constexpr (has_levels<Transport>) {
    decltype(&comm.engine().levels->inside()) node = nullptr;
    if constexpr (!std::is_same_v<Algorithm, native> && !is_a<Algorithm, two_level>)
      if (asked == algorithm_id::automatic || is_scheduled(asked)) node = comm.engine().levels->only_node();
    if (node != nullptr) {
      if constexpr (bound_to_thread<Transport>) comm.engine().transport().expect_thread();
      try {
        comm.engine().expect_no_fault(where);
      } catch (...) {
        node->engine().give_up_in_flight();
        throw;
      }
    }
    return node;
  } else {
    return static_cast<communicator<Transport>*>(nullptr);
  }
}

// Calls f(call) with contiguous arrays, for a library, and for the calls that two_level is composed of.
template <class Transport, class Call, class F>
void with_contiguous(engine<Transport>& on, Call& c, F&& f) {
  if constexpr (is_a<decltype(c.memory), gapped_memory>) {
    auto copies = pack<Call::what>(on, c.memory);
    call<Call::what, typename Call::algorithm, typename Call::body_type, decltype(copies)> contiguous{
        c, std::move(copies), c.body};
    f(contiguous);
    unpack(on, c.memory);
  } else {
    f(c);
  }
}

// Drives to completion a call that may go by a library, or by levels, which know its type.
template <class Transport, class Call>
void complete_in_type(engine<Transport>& on, Call& c) try {
  finish_started(on);
  begun_call<Transport> begun(on, c);
  surfaces<typename Call::element> memory{.input = {}, .output = {}, .scratch = {}};
  if constexpr (has_native_collectives<Transport>)
    if (begun.plan().algorithm == algorithm_id::native)
      return with_contiguous(on, c, [&](auto& call) { execute_native<Call::what>(on, begun, call, memory); });
  if constexpr (has_levels<Transport> && (!decltype(c.memory)::ragged || has_two_levels_v(Call::what)))
    if (begun.plan().algorithm == algorithm_id::two_level)
      return with_contiguous(on, c, [&](auto& call) { on.levels->execute(begun, call, memory); });
  if constexpr (may_be_scheduled<Call>) {
    carry_out<Call::what>(on, begun, c.asked, c.body.in_bytes(), c.memory);
    begun.finish();
  }
} catch (...) {
  on.stop_in_flight_if_faulty();
  throw;
}

// Drives a call to completion.
template <class Transport, class Call>
void complete(engine<Transport>& on, Call& c) {
  static_assert(sizeof(typename Call::element) <= Transport::slice_bytes,
                "an element must fit into a slice (16 KiB over shared memory); send larger structs in parts");
  if constexpr (!has_native_collectives<Transport> && !has_levels<Transport>) {
    in_bytes<Transport, Call>::complete(on, c, c.body.in_bytes(), memory_in_bytes(c.memory));
  } else {
    complete_in_type(on, c);
  }
}

// The call on a communicator of one rank, slice by slice. Unlike that on contiguous arrays, which need not enter the engine, it uses
// memory that all calls share. Does nothing where it would only copy an array onto itself.
template <class Transport, class Call>
void run_alone_with_gaps(engine<Transport>& on, Call& c) {
  constexpr bool may_change = Call::what != collective::broadcast && Call::what != collective::exclusive_scan;
  if constexpr (may_change) {
    struct leaving {
      engine<Transport>& on;
      ~leaving() { on.leave(); }
    };
    on.enter(c.where);
    leaving const at_end{on};
    if (c.memory.in_place && !Call::body_type::prepares && !Call::body_type::finishes) return;
    surfaces<std::byte, gapped_layout> memory{.input = {}, .output = {}, .scratch = {}};
    c.memory.lay_out(memory, c.asked, 0, 1);
    if constexpr (!by_block(Call::what))
      for (layout* const where : {&memory.input.where, &memory.output.where})
        where->become_whole(c.asked.bytes(), 1, 1, 1);
    byte_body const body = c.body.in_bytes();
    std::size_t const all = memory.input.where.end(), slice = body.whole_elements(Transport::slice_bytes);
    if (c.memory.overlap) read_copy(memory.input, on.copy.at_least(all), all);
    std::byte* const room = on.windows.at_least(slice_windows::bytes(Transport::slice_bytes, 0, 1));
    slice_windows const windows(room, Transport::slice_bytes, 0, 1);
    memory.input.where.windows = memory.output.where.windows = windows;
    std::size_t const count = memory.input.where.at(0, 0).count;
    for (std::size_t done = 0; done < count; done += slice) {
      extent const range{done, std::min(slice, count - done)};
      auto from = memory.input.pieces(0, {}, range);
      auto to = memory.output.pieces(0, {}, range);
      std::byte const* const in = from.data();
      std::byte* const out = to.data();
      body(&in, 1, &out, 1, range.count, {.prepare = 0, .finish = 1});
      to.written(range.count);
    }
  }
}

// The call on a communicator of one rank.
template <class Transport, class Call, class Packing>
void run_alone(engine<Transport>& on, Call& c, Packing const& packing) {
  on.expect_no_fault({});
  if (c.timeout.count() < 0) [[unlikely]]
    refuse_negative_timeout(on.rank(), c.where);
  if constexpr (std::is_same_v<typename Call::algorithm, automatic>)
    if (c.asked.algorithm != algorithm_id::automatic) [[unlikely]]
      expect_served_alone<Transport>(c.asked, c.schedules, c.where);
  packing.pack();
  if constexpr (is_a<decltype(c.memory), gapped_memory>) run_alone_with_gaps(on, c);
  else c.run_alone();
  packing.unpack();
}

// `packing`: the arrays of the call, if they need it.
template <class Comm, class Call, class Packing = nothing_to_pack>
returned_by<Comm> perform(Comm& comm, Call& c, Packing&& packing = {}) {
  if constexpr (!is_communicator<Comm>) {
    return comm.defer(std::move(c), std::forward<Packing>(packing));
  } else {
    if (comm.size() <= 1) return run_alone(comm.engine_alone(c.where), c, packing);
    packing.pack();
    if (auto* const node = node_for<typename Call::algorithm>(comm, c.asked.algorithm, c.where))
      complete(node->engine(), c);
    else complete(comm.engine(), c);
    packing.unpack();
  }
}

}  // namespace detail
}  // namespace tutti
