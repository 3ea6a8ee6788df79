// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule on buffers and channels, by poll().
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/protocol_violation.hpp"
#include "tutti/execute/references.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/execute/traffic.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// One running collective: a walk through the schedule over the channels and buffers of this rank. Its state is a few
// integers a cursor, so blocking and started calls drive it in the same way. Nothing here throws: a message that is not the
// one that is due ends the execution, and the caller reports it.
template <carries_slices Transport, step_function Schedule, class Body, class Layout = layout>
class execution {
 public:
  using element = typename Body::element;

  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE execution(Transport& transport, reference_list* references, Schedule schedule, shape s,
                              surfaces<element, Layout> const& memory, Body body, std::uint32_t tag, access const& how,
                              bool announces)
      : traffic_(transport, references, how, tag),
        memory_(memory),
        body_(body),
        streams_(how.streams),
        walk_(schedule, s, transport.rank(), memory, body.whole_elements(how.slice), announces) {}

  // Moves every cursor as far as it goes without waiting.
  TUTTI_HOST_DEVICE progress poll() noexcept;

  TUTTI_HOST_DEVICE protocol_violation const& found() const noexcept { return traffic_.found(); }

 private:
  using cursor = detail::cursor;
  using message_slice = detail::message_slice;
  using view = typename traffic<Transport, element>::view;
  using fan = typename traffic<Transport, element>::fan;

  // One message sent or one slice received; false where nothing can be done now.
  TUTTI_HOST_DEVICE bool advance(int track) noexcept {
    cursor& c = walk_[track];
    if (c.finished) return false;
    std::size_t const available = walk_.available(track);
    bool moved = false;
    if (c.may_send(available)) moved |= send(c, track);
    if (c.may_receive(available)) {
      moved |= c.now.keep.split ? receive_next(c, track) : receive(c, track);
      if (traffic_.found()) return false;
    }
    if (c.step_done()) {
      walk_.leave(c);
      return true;
    }
    return moved;
  }

  // -- Sending from memory.

  TUTTI_HOST_DEVICE bool send(cursor& c, int track) noexcept {
    region const& give = c.now.give;
    int const peer = walk_.peer(c.now.to, c.sending);
    message_slice const part = walk_.slice(c.me.lane, give, c.sending, c.sent);
    extent const& range = part.range;
    if (peer != c.me.rank && walk_.travels(part, c.sent)) {
      element* const place = traffic_.claim(peer, track, range.count, body_.alignment());
      if (place == nullptr) return false;
      if (range.count == 0) traffic_.publish(peer, track, 0, false);
      bool const raw = body_.prepares() && give.where == space::input;
      memory_.for_each_piece(c.me.lane, give, memory_.share(give, c.sending), range,
                             [&](element const* from, std::size_t offset, std::size_t n) {
                               if (n == range.count && !raw && traffic_.refers(from, n))
                                 return traffic_.refer(peer, track, from, n, part.more);
                               traffic_.write(body_, from, place + offset, n, raw);
                               if (offset + n == range.count) traffic_.publish(peer, track, range.count, part.more);
                             });
    }
    c.sent_to_one();
    return true;
  }

  // -- Receiving a slice from all sources at once, combining it, and passing it on.

  TUTTI_HOST_DEVICE bool receive(cursor& c, int track) noexcept {
    step const& t = c.now;
    message_slice const part = walk_.slice(c.me.lane, t.keep, 0, c.received);
    extent const& range = part.range;
    if (walk_.travels(part, c.received)) {
      auto&& lists = traffic_.lists();
      int self = -1;
      for (int k = 0; k < t.from.count; ++k) {
        int const peer = walk_.peer(t.from, k);
        if (peer == c.me.rank) self = k;
        else if (!traffic_.arrived(peer, track, range.count, part.more, lists.arrived[k])) return false;
      }
      if ((range.count > 0 || t.forwards()) && !combine_slice(c, track, part, lists, self)) return false;
      for (int k = 0; k < t.from.count; ++k)
        if (k != self) traffic_.release(walk_.peer(t.from, k), track);
    }
    c.received_from_all();
    return true;
  }

  TUTTI_HOST_DEVICE bool combine_slice(cursor const& c, int track, message_slice const& part, fan& lists,
                                       int self) noexcept {
    step const& t = c.now;
    extent const& range = part.range;
    bool const keeps = t.keep.where != space::none;
    if (keeps && !writable(c.me.lane, t.keep, t.keep.what, range)) return false;

    // Peers read the result where it is kept, if they can.
    bool refer_kept = false;
    if (t.forwards() && keeps)
      memory_.for_each_piece(c.me.lane, t.keep, t.keep.what, range,
                             [&](element const* kept, std::size_t, std::size_t n) {
                               refer_kept = n == range.count && traffic_.refers(kept, n);
                             });
    view* const arrived = lists.arrived;
    int outgoing = 0;
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k) {
        int const peer = walk_.peer(t.to, k);
        if (peer == c.me.rank) continue;
        element* const place = traffic_.claim(peer, track, range.count, body_.alignment());
        if (place == nullptr) return false;
        if (!refer_kept) lists.claimed[outgoing++] = place;
      }

    if (traffic_.pulls()) {
      if (t.from.count == 1 && self < 0 && arrived[0].foreign && !t.complete)
        return fetch_slice(c, walk_.peer(t.from, 0), t.keep.what, range, arrived[0]);
      for (int k = 0; k < t.from.count; ++k)
        if (k != self && arrived[k].foreign && !traffic_.fetch(walk_.peer(t.from, k), k, arrived[k], range.count))
          return false;
    }

    bool const raw = self >= 0 && t.own.where == space::input;
    stage const how{.prepare = raw ? self : -1, .finish = t.complete ? walk_.of().ranks : 0, .stream = streams(c)};
    element const* kept_at = nullptr;
    auto const piece = [&](element* kept, element const* own, std::size_t offset, std::size_t n) {
      for (int k = 0; k < t.from.count; ++k) lists.sources[k] = k == self ? own : arrived[k].data + offset;
      int count = 0;
      for (; count < outgoing; ++count) lists.destinations[count] = lists.claimed[count] + offset;
      if (kept != nullptr) lists.destinations[count++] = kept;
      body_(lists.sources, t.from.count, lists.destinations, count, n, how);
      if (offset == 0) kept_at = kept;
    };
    // Pieces end where the kept region is discontiguous and, within, where the own one is.
    auto const with_own = [&](element* kept, std::size_t offset, std::size_t n) {
      if (self < 0) return piece(kept, nullptr, offset, n);
      memory_.for_each_piece(c.me.lane, t.own, t.own.what, {range.begin + offset, n},
                             [&](element const* own, std::size_t inner, std::size_t m) {
                               piece(kept == nullptr ? nullptr : kept + inner, own, offset + inner, m);
                             });
    };
    if (keeps) memory_.for_each_writable_piece(c.me.lane, t.keep, t.keep.what, range, with_own);
    else with_own(nullptr, 0, range.count);

    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k) {
        int const peer = walk_.peer(t.to, k);
        if (peer == c.me.rank) continue;
        if (refer_kept) traffic_.refer(peer, track, kept_at, range.count, part.more);
        else traffic_.publish(peer, track, range.count, part.more);
      }
    return true;
  }

  // -- Receiving a slice from each source into a chunk of its own.

  TUTTI_HOST_DEVICE bool receive_next(cursor& c, int track) noexcept {
    step const& t = c.now;
    int const peer = walk_.peer(t.from, c.receiving);
    message_slice const part = walk_.slice(c.me.lane, t.keep, c.receiving, c.received);
    extent const& range = part.range;
    if (walk_.travels(part, c.received)) {
      chunks const chunk = memory_.share(t.keep, c.receiving);
      view from{};
      element* kept = nullptr;
      memory_.for_each_writable_piece(c.me.lane, t.keep, chunk, range,
                                      [&](element* data, std::size_t, std::size_t) { kept = data; });
      if (peer == c.me.rank)
        memory_.for_each_piece(c.me.lane, t.own, t.own.what, range,
                               [&](element const* data, std::size_t, std::size_t) { from.data = data; });
      else if (!traffic_.arrived(peer, track, range.count, part.more, from)) return false;
      // In place, the own chunk is where it belongs already, and peers may be reading it.
      if (range.count > 0 && (from.foreign || from.data != kept)) {
        if (!writable(c.me.lane, t.keep, chunk, range)) return false;
        if (from.foreign) {
          if (!fetch_slice(c, peer, chunk, range, from)) return false;
        } else {
          body_(&from.data, 1, &kept, 1, range.count, {.stream = streams(c)});
        }
      }
      if (peer != c.me.rank) traffic_.release(peer, track);
    }
    c.received_from_one();
    return true;
  }

  // -- Writing.

  TUTTI_HOST_DEVICE bool writable(int lane, region const& r, chunks const& what, extent range) noexcept {
    if (!traffic_.refers_to_any()) return true;
    bool free = true;
    memory_.for_each_piece(lane, r, what, range, [&](element const* data, std::size_t, std::size_t n) {
      free = free && traffic_.all_read(data, n);
    });
    return free;
  }

  // Fetches a slice to where it is kept.
  TUTTI_HOST_DEVICE bool fetch_slice(cursor const& c, int peer, chunks const& what, extent range,
                                     view const& from) noexcept {
    bool all = true;
    memory_.for_each_writable_piece(c.me.lane, c.now.keep, what, range,
                                    [&](element* kept, std::size_t offset, std::size_t n) {
                                      all = all && traffic_.fetch(peer, from.data + offset, kept, n);
                                    });
    return all;
  }

  // Whether to store past the caches: this call does not read again what the step keeps, and it is too large for the caller to
  // find it in a cache.
  TUTTI_HOST_DEVICE bool streams(cursor const& c) const noexcept {
    return streams_ && c.now.keep.where == space::output && c.me.phase + 1 == walk_.schedule().phases(walk_.of()) &&
           c.steps == 1 && !c.now.forwards();
  }

  traffic<Transport, element> traffic_;
  surfaces<element, Layout> const& memory_;
  Body body_;
  bool streams_;
  detail::walk<Schedule, surfaces<element, Layout>> walk_;
};

// Outside the class, where `extern template` keeps other programs from compiling it.
template <carries_slices Transport, step_function Schedule, class Body, class Layout>
TUTTI_HOST_DEVICE progress execution<Transport, Schedule, Body, Layout>::poll() noexcept {
  bool moved = false, finished = true;
  for (int t = 0; t < walk_.tracks(); ++t) {
    while (advance(t)) moved = true;
    if (traffic_.found()) return progress::done;
    finished &= walk_[t].finished;
  }
  if (finished && traffic_.settled()) return progress::done;
  return moved ? progress::moved : progress::stuck;
}

}  // namespace tutti::detail
