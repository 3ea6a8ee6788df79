// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are handed to the library of the transport: the algorithm `native`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/call/scheduled.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/roll_call.hpp"

namespace tutti::detail {

// What comes before the main part of a call: the same tag, and its end is not that of the call.
template <class Transport>
struct prelude {
  running_call<Transport>& call;

  tutti::detail::plan const& plan() const { return call.plan(); }
  std::uint32_t tag() const { return call.tag(); }
  template <class Memory, class Make>
  void run(Memory& memory, Make&& make) {
    auto work = make(memory);
    call.drive(work);
  }
};

// Where ranks of a _v form know the sizes of their own blocks alone: receivers are told what senders have, and compare.
template <collective C, class Transport>
void compare_blocks(engine<Transport>& g, running_call<Transport>& call, request const& r,
                    surfaces<std::byte> const& memory) {
  int const rank = g.rank(), ranks = g.ranks();
  bool const gives = C != collective::scatter || rank == r.root, takes = C != collective::gather || rank == r.root;
  std::vector<std::uint64_t> theirs(static_cast<std::size_t>(ranks)), ours(theirs);
  auto const bytes = [&](layout const& where, int q) { return static_cast<std::uint64_t>(where.at(0, q).count); };
  for (int q = 0; q < ranks && gives; ++q)
    if (C != collective::gather || q == rank) ours[static_cast<std::size_t>(q)] = bytes(memory.input.where, q);
  layout const blocks = layout::blocks(sizeof(std::uint64_t), ranks);
  auto* const from = reinterpret_cast<std::byte*>(ours.data());
  auto* const to = reinterpret_cast<std::byte*>(theirs.data());
  surfaces<std::byte> sizes{.input = {from, blocks}, .output = {to, blocks}, .scratch = {nullptr, blocks}};
  std::size_t const own = blocks.at(0, rank).begin;
  if (C == collective::gather) sizes.input = {from + own, blocks.only(rank)};
  if (C == collective::scatter) sizes.output = {to + own, blocks.only(rank)};
  prelude<Transport> before{call};
  execute_schedule<one_shot, C>(g, before, {.what = C, .root = r.root}, moving{}, sizes, 0);
  for (int q = 0; q < ranks && takes; ++q) {
    if (C == collective::scatter && q != rank) continue;
    std::uint64_t const sent = theirs[static_cast<std::size_t>(q)], expected = bytes(memory.output.where, q);
    if (sent != expected)
      call.report({.peer = C == collective::scatter ? r.root : q,
                   .bytes = static_cast<std::size_t>(sent),
                   .expected = static_cast<std::size_t>(expected)});
  }
}

// All ranks are in this call, and none has given it up. Once all have said that they are here, those who came first may
// have given up before the last one came, so all say it again. But not where they come soon after each other, and give up
// late: whoever comes within 50 ms of when it came to the meeting before comes within 50 ms of everybody. A fault outside
// may make ranks give up at any time.
template <class Transport>
void meet(engine<Transport>& g, running_call<Transport>& call) {
  static constexpr std::chrono::milliseconds soon{50};
  static constexpr std::chrono::seconds late{10};
  auto const now = deadline::clock::now();
  bool const again = g.fault_outside || now - g.last_meeting > soon || call.timeout() < late;
  roll_call<Transport> first(g.transport(), call.tag(), again);
  call.drive(first);
  if (first.more_wanted()) {
    roll_call<Transport> second(g.transport(), call.tag(), false);
    call.drive(second);
  }
  g.last_meeting = now;
  g.transport().note_all_arrived();
}

// What comes before and after a reduction by others, which know nothing of the operation's prologue and epilogue.
// `elements`: of the message, where it is not in blocks.
template <collective C, class Transport, class Body>
void copy_input(engine<Transport>& g, Body body, surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  std::size_t const count = by_block(C) ? memory.input.where.end() : elements;
  T* const copy = reinterpret_cast<T*>(g.copy.at_least(count * sizeof(T)));
  body(&memory.input.data, 1, &copy, 1, count, {.prepare = Body::prepares ? 0 : -1});
  memory.input.data = copy;
  memory.in_place = false;
}
template <collective C, class Transport, class Body>
void finish_output(engine<Transport>& g, Body body, surfaces<typename Body::element> const& memory,
                   std::size_t elements) {
  if constexpr (Body::finishes) {
    std::size_t const count = by_block(C) ? memory.output.where.at(0, g.rank()).count : elements;
    auto const* const all = memory.output.data;
    if (all != nullptr) body(&all, 1, &memory.output.data, 1, count, {.finish = g.ranks()});
  }
}

// Hands a call to the library of the transport, which would wait for ever: so all ranks meet first, and one that is late,
// gone or in another call is found as in any algorithm.
template <collective C, class Transport, class Body>
void execute_native(engine<Transport>& g, running_call<Transport>& call, request const& r, Body body,
                    surfaces<typename Body::element>& memory, std::size_t elements) {
  // All that may throw comes before the others are in the library.
  if (r.ragged) Transport::native_collectives::template expect_countable<C>(g.transport(), r, memory);
  if (Body::prepares || (memory.in_place && !Transport::native_collectives::works_in_place(C)))
    copy_input<C>(g, body, memory, elements);
  if constexpr (C == collective::gather || C == collective::scatter || C == collective::all_to_all)
    if (r.ragged) compare_blocks<C>(g, call, r, memory);
  meet(g, call);
  Transport::native_collectives::template call<C>(g.transport(), r, memory, elements, body);
  finish_output<C>(g, body, memory, elements);
  call.complete();
}

}  // namespace tutti::detail
