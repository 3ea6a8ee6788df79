// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that the library of the transport carries out: the algorithm `native`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/call/scheduled.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/roll_call.hpp"

namespace tutti::detail {

// In _v forms in which ranks know only the sizes of their own blocks, senders first send these sizes to the receivers,
// which compare.
template <collective C, class Transport>
void compare_blocks(engine<Transport>& on, begun_call<Transport>& begun, request const& r,
                    surfaces<std::byte> const& memory) {
  int const rank = on.rank(), ranks = on.ranks();
  bool const gives = C != collective::scatter || rank == r.root, takes = C != collective::gather || rank == r.root;
  std::vector<std::uint64_t> theirs(static_cast<std::size_t>(ranks)), ours(theirs);
  auto const bytes = [&](layout const& where, int q) { return where.at(0, q).count; };
  for (int q = 0; q < ranks && gives; ++q)
    if (C != collective::gather || q == rank) ours[static_cast<std::size_t>(q)] = bytes(memory.input.where, q);
  layout const blocks = layout::blocks(sizeof(std::uint64_t), ranks);
  auto* const from = reinterpret_cast<std::byte*>(ours.data());
  auto* const to = reinterpret_cast<std::byte*>(theirs.data());
  surfaces<std::byte> sizes{.input = {from, blocks}, .output = {to, blocks}, .scratch = {nullptr, blocks}};
  std::size_t const own = blocks.at(0, rank).begin;
  if (C == collective::gather) sizes.input = {from + own, blocks.only(rank)};
  if (C == collective::scatter) sizes.output = {to + own, blocks.only(rank)};
  request const asked{.what = C, .root = r.root};
  auto told = slices_of(on, begun, asked, dynamic_schedule::of<schedule<one_shot, C>>(), moving{}.in_bytes(), sizes);
  begun.drive(told);
  for (int q = 0; q < ranks && takes; ++q) {
    if (C == collective::scatter && q != rank) continue;
    std::uint64_t const sent = theirs[static_cast<std::size_t>(q)], expected = bytes(memory.output.where, q);
    if (sent != expected)
      begun.report({.peer = C == collective::scatter ? r.root : q,
                    .bytes = static_cast<std::size_t>(sent),
                    .expected = static_cast<std::size_t>(expected)});
  }
}

// Waits until all ranks are in this call and none has given it up. Once all have reported their arrival, the first to
// arrive may already have given up, so all report again. The second report is skipped if ranks arrive soon after each
// other and their timeouts are long: a rank that arrives within 50 ms of its previous meeting arrives within 50 ms of
// all others. It is not skipped if a fault outside this group can make ranks give up at any time.
template <class Transport>
void call_roll(engine<Transport>& on, begun_call<Transport>& begun) {
  static constexpr std::chrono::milliseconds soon{50};
  static constexpr std::chrono::seconds late{10};
  auto const now = deadline::clock::now();
  bool const again = on.fault_outside || now - on.last_meeting > soon || begun.timeout() < late;
  roll_call<Transport> first(on.transport(), begun.tag(), again);
  begun.drive(first);
  if (first.more_wanted()) {
    roll_call<Transport> second(on.transport(), begun.tag(), false);
    begun.drive(second);
  }
  on.last_meeting = now;
  on.transport().note_all_arrived();
}

// What is done before and after the library's collective, which cannot do everything in place and does not know the prologue and epilogue
// of an operation. `elements`: of the message, if it is not in blocks.
template <collective C, class Transport, class Body>
void copy_input(engine<Transport>& on, Body body, surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  std::size_t const bytes = (by_block(C) ? memory.input.where.end() : elements) * sizeof(T);
  auto const* const given = reinterpret_cast<std::byte const*>(memory.input.data);
  std::byte* const copy = on.copy.at_least(bytes);
  body.in_bytes()(&given, 1, &copy, 1, bytes, {.prepare = Body::prepares ? 0 : -1});
  memory.input.data = reinterpret_cast<T const*>(copy);
  memory.in_place = false;
}
template <collective C, class Transport, class Body>
void finish_output(engine<Transport>& on, Body body, surfaces<typename Body::element> const& memory,
                   std::size_t elements) {
  if constexpr (Body::finishes) {
    std::size_t const count = by_block(C) ? memory.output.where.at(0, on.rank()).count : elements;
    auto* const out = reinterpret_cast<std::byte*>(memory.output.data);
    std::byte const* const all = out;
    if (out != nullptr)
      body.in_bytes()(&all, 1, &out, 1, count * sizeof(typename Body::element), {.finish = on.ranks()});
  }
}

// Lets the library of the transport carry out a call. The library would wait for ever, so all ranks meet first, unless
// rank 0 asked for no meetings; a rank that is late, gone or in another call is detected as in any algorithm.
template <collective C, class Transport, class Call>
void execute_native(engine<Transport>& on, begun_call<Transport>& begun, Call& c,
                    surfaces<typename Call::element>& memory) {
  request const& r = c.asked;
  c.memory.lay_out(memory, r, on.rank(), on.ranks());
  std::size_t elements = 0;
  if constexpr (!by_block(C)) elements = c.memory.elements(r);
  if (Call::body_type::prepares || (memory.in_place && !Transport::native_collectives::works_in_place(C)))
    copy_input<C>(on, c.body, memory, elements);
  // Other ranks enter the library once all have met, so whatever may throw on this one comes before.
  auto const enter = [&] {
    if (on.tuned.meets) {
      if constexpr (C == collective::gather || C == collective::scatter || C == collective::all_to_all)
        if (r.ragged) compare_blocks<C>(on, begun, r, memory);
      call_roll(on, begun);
    }
    return on.transport().enter_library(name(C).data(), begun.timeout(), begun.where());
  };
  Transport::native_collectives::template call<C>(on.transport(), r, memory, elements, c.body, enter);
  finish_output<C>(on, c.body, memory, elements);
  begun.finish();
}

}  // namespace tutti::detail
