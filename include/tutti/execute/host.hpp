// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule: cursors that walk through steps and slices, moved by poll().
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "tutti/algorithm/concept.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/references.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/execute/surprise.hpp"
#include "tutti/execute/traffic.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// One running collective. Its state is a few integers a cursor; blocking and non-blocking calls drive it in the same way.
// Nothing here throws: a surprise ends the execution and is left for the caller to report.
template <carries_slices Transport, step_function Schedule, class Body, class Layout = layout>
class execution {
 public:
  using element = typename Body::element;

  // Elements that fit in a message.
  static constexpr std::size_t slot_elements = Transport::slice_bytes / sizeof(element);
  static_assert(alignof(element) <= cache_line, "an element may be aligned to a line of cache (64 bytes) at most");
  static_assert(slot_elements > 0,
                "an element must fit into a slice (16 KiB over shared memory); send larger structs in parts");

  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE execution(Transport& transport, reference_list* references, Schedule schedule, shape s,
                              surfaces<element, Layout> const& memory, Body body, std::uint32_t tag, access const& how,
                              bool announces)
      : traffic_(transport, references, how, tag),
        schedule_(schedule),
        shape_(s),
        memory_(memory),
        body_(body),
        slice_(how.slice / sizeof(element)),
        streams_(how.streams),
        announces_(announces),
        tracks_(schedule.lanes(s) * schedule.phases(s) < max_tracks ? schedule.lanes(s) * schedule.phases(s)
                                                                    : max_tracks) {
    for (int t = 0; t < tracks_; ++t) {
      cursor& c = *::new (&cursors_[t]) cursor;
      c.me = {transport.rank(), t / schedule.phases(s), t % schedule.phases(s)};
      c.steps = schedule.steps(s, c.me);
      c.slices = schedule.pipelined ? slices(memory_.largest_chunk(c.me.lane), slice_) : 1;
      c.finished = c.steps == 0 || c.slices == 0;
      if (!c.finished) enter(c);
    }
  }

  // Moves every cursor as far as it goes without waiting.
  TUTTI_HOST_DEVICE progress poll() noexcept {
    bool moved = false, finished = true;
    for (int t = 0; t < tracks_; ++t) {
      while (advance(t)) moved = true;
      if (traffic_.found()) return progress::done;
      finished &= cursors_[t].finished;
    }
    if (finished && traffic_.settled()) return progress::done;
    return moved ? progress::moved : progress::stuck;
  }

  TUTTI_HOST_DEVICE surprise const& found() const noexcept { return traffic_.found(); }

 private:
  struct cursor {
    position me{};
    int steps = 0;
    std::size_t slices = 1;  // pipelined: how many turns through all steps
    bool finished = true;

    std::size_t turn = 0;  // pipelined: the slice of this turn
    int index = 0;         // of the step
    step now{};
    std::size_t end = 0;  // the step's slices: [sent and received, end)
    std::size_t sent = 0;
    std::size_t received = 0;
    int sending = 0;    // within slice `sent`: the next receiver
    int receiving = 0;  // within slice `received`: the next source, where they are stored one by one
  };

  // A slice of a message, in elements of it, and whether further slices follow.
  struct message_part {
    extent range;
    bool more;
  };

  using view = typename traffic<Transport, element>::view;
  using fan = typename traffic<Transport, element>::fan;

  // -- The cursor's way: slices within steps, or steps within slices.

  TUTTI_HOST_DEVICE void enter(cursor& c) noexcept {
    // Made where it stays: a copy would wait for what was just stored.
    ::new (&c.now) step(schedule_.at(shape_, c.me, c.index));
    c.sent = c.received = schedule_.pipelined ? c.turn : 0;
    c.end = schedule_.pipelined ? c.turn + 1 : step_slices(c);
    c.sending = c.receiving = 0;
    if (c.now.to.empty() || c.now.forwards()) c.sent = c.end;
    if (c.now.from.empty()) c.received = c.end;
  }

  TUTTI_HOST_DEVICE void leave(cursor& c) noexcept {
    if (++c.index == c.steps) {
      c.index = 0;
      if (++c.turn == c.slices) {
        c.finished = true;
        return;
      }
    }
    enter(c);
  }

  TUTTI_HOST_DEVICE std::size_t step_slices(cursor const& c) const noexcept {
    std::size_t const out = slices(memory_.largest(c.me.lane, c.now.give), slice_);
    std::size_t const in = slices(memory_.largest(c.me.lane, c.now.keep), slice_);
    bool const sends = !c.now.to.empty() && !c.now.forwards(), receives = !c.now.from.empty();
    std::size_t const most = sends && (!receives || in < out) ? out : receives ? in : 0;
    return most == 0 && announces_ ? 1 : most;
  }

  // The slices that the phase before has done with.
  TUTTI_HOST_DEVICE std::size_t available(int track) const noexcept {
    cursor const& c = cursors_[track];
    if (c.me.phase == 0) return static_cast<std::size_t>(-1);
    cursor const& before = cursors_[track - 1];
    if (before.finished) return static_cast<std::size_t>(-1);
    if (schedule_.pipelined) return before.turn;
    if (before.index < before.steps - 1) return 0;
    return before.sent < before.received ? before.sent : before.received;
  }

  // One message sent or one slice received; false where nothing can be done now.
  TUTTI_HOST_DEVICE bool advance(int track) noexcept {
    cursor& c = cursors_[track];
    if (c.finished) return false;
    std::size_t const limit = available(track);
    bool moved = false;
    if (c.sent < c.end && c.sent < limit) moved |= send(c, track);
    if (c.received < c.end && c.received < limit && (c.sent > c.received || c.sent == c.end)) {
      moved |= c.now.keep.split ? receive_next(c, track) : receive(c, track);
      if (traffic_.found()) return false;
    }
    if (c.sent == c.end && c.received == c.end) {
      leave(c);
      return true;
    }
    return moved;
  }

  // -- Sending what lies in memory.

  TUTTI_HOST_DEVICE bool send(cursor& c, int track) noexcept {
    region const& give = c.now.give;
    int const peer = c.now.to.at(c.sending, shape_.ranks);
    message_part const part = part_of(c.me.lane, give, c.sending, c.sent);
    extent const& range = part.range;
    if (peer != c.me.rank && travels(range, c.sent)) {
      element* const place = traffic_.claim(peer, track, range.count);
      if (place == nullptr) return false;
      if (range.count == 0) traffic_.publish(peer, track, 0, false);
      bool const raw = Body::prepares && give.where == space::input;
      memory_.for_each_piece(c.me.lane, give, memory_.share(give, c.sending), range,
                             [&](element const* from, std::size_t offset, std::size_t n) {
                               if (n == range.count && !raw && traffic_.refers(from, n))
                                 return traffic_.refer(peer, track, from, n, part.more);
                               traffic_.write(body_, from, place + offset, n, raw);
                               if (offset + n == range.count) traffic_.publish(peer, track, range.count, part.more);
                             });
    }
    if (++c.sending == c.now.to.count) {
      c.sending = 0;
      ++c.sent;
    }
    return true;
  }

  // -- Receiving a slice from all sources at once, combining it, and passing it on.

  TUTTI_HOST_DEVICE bool receive(cursor& c, int track) noexcept {
    step const& t = c.now;
    message_part const part = part_of(c.me.lane, t.keep, 0, c.received);
    extent const& range = part.range;
    if (travels(range, c.received)) {
      auto&& lists = traffic_.lists();
      int self = -1;
      for (int k = 0; k < t.from.count; ++k) {
        int const peer = t.from.at(k, shape_.ranks);
        if (peer == c.me.rank) self = k;
        else if (!traffic_.arrived(peer, track, range.count, part.more, lists.arrived[k])) return false;
      }
      if (range.count > 0 && !combine_slice(c, track, part, lists, self)) return false;
      for (int k = 0; k < t.from.count; ++k)
        if (k != self) traffic_.release(t.from.at(k, shape_.ranks), track);
    }
    ++c.received;
    return true;
  }

  TUTTI_HOST_DEVICE bool combine_slice(cursor const& c, int track, message_part part, fan& lists, int self) noexcept {
    step const& t = c.now;
    extent const& range = part.range;
    bool const keeps = t.keep.where != space::none;
    if (keeps && !writable(c.me.lane, t.keep, t.keep.what, range)) return false;

    // Where the result is kept in memory that peers can read, they read it there.
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
        int const peer = t.to.at(k, shape_.ranks);
        if (peer == c.me.rank) continue;
        element* const place = traffic_.claim(peer, track, range.count);
        if (place == nullptr) return false;
        if (!refer_kept) lists.claimed[outgoing++] = place;
      }

    if (traffic_.pulls()) {
      if (t.from.count == 1 && self < 0 && arrived[0].foreign && !t.complete)
        return fetch_slice(c, t.from.at(0, shape_.ranks), t.keep.what, range, arrived[0]);
      for (int k = 0; k < t.from.count; ++k)
        if (k != self && arrived[k].foreign && !traffic_.fetch(t.from.at(k, shape_.ranks), k, arrived[k], range.count))
          return false;
    }

    bool const raw = self >= 0 && t.own.where == space::input;
    stage const how{.prepare = raw ? self : -1, .finish = t.complete ? shape_.ranks : 0, .stream = streams(c)};
    element const* kept_at = nullptr;
    auto const piece = [&](element* kept, element const* own, std::size_t offset, std::size_t n) {
      for (int k = 0; k < t.from.count; ++k) lists.sources[k] = k == self ? own : arrived[k].data + offset;
      int count = 0;
      for (; count < outgoing; ++count) lists.destinations[count] = lists.claimed[count] + offset;
      if (kept != nullptr) lists.destinations[count++] = kept;
      body_(lists.sources, t.from.count, lists.destinations, count, n, how);
      if (offset == 0) kept_at = kept;
    };
    // Pieces are cut where the kept region is cut and, within, where the own one is.
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
        int const peer = t.to.at(k, shape_.ranks);
        if (peer == c.me.rank) continue;
        if (refer_kept) traffic_.refer(peer, track, kept_at, range.count, part.more);
        else traffic_.publish(peer, track, range.count, part.more);
      }
    return true;
  }

  // -- Receiving a slice from each source into a chunk of its own.

  TUTTI_HOST_DEVICE bool receive_next(cursor& c, int track) noexcept {
    step const& t = c.now;
    int const peer = t.from.at(c.receiving, shape_.ranks);
    message_part const part = part_of(c.me.lane, t.keep, c.receiving, c.received);
    extent const& range = part.range;
    if (travels(range, c.received)) {
      chunks const chunk = memory_.share(t.keep, c.receiving);
      view from{};
      element* kept = nullptr;
      memory_.for_each_writable_piece(c.me.lane, t.keep, chunk, range,
                                      [&](element* data, std::size_t, std::size_t) { kept = data; });
      if (peer == c.me.rank)
        memory_.for_each_piece(c.me.lane, t.own, t.own.what, range,
                               [&](element const* data, std::size_t, std::size_t) { from.data = data; });
      else if (!traffic_.arrived(peer, track, range.count, part.more, from)) return false;
      // In place, the own chunk is where it belongs, and peers may be reading it.
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
    if (++c.receiving == t.from.count) {
      c.receiving = 0;
      ++c.received;
    }
    return true;
  }

  // -- What a cursor may write, and how.

  TUTTI_HOST_DEVICE bool writable(int lane, region const& r, chunks const& what, extent range) noexcept {
    if (!traffic_.refers_to_any()) return true;
    bool free = true;
    memory_.for_each_piece(lane, r, what, range, [&](element const* data, std::size_t, std::size_t n) {
      free = free && traffic_.all_read(data, n);
    });
    return free;
  }

  // To where it is kept.
  TUTTI_HOST_DEVICE bool fetch_slice(cursor const& c, int peer, chunks const& what, extent range,
                                     view const& from) noexcept {
    bool all = true;
    memory_.for_each_writable_piece(c.me.lane, c.now.keep, what, range,
                                    [&](element* kept, std::size_t offset, std::size_t n) {
                                      all = all && traffic_.fetch(peer, from.data + offset, kept, n);
                                    });
    return all;
  }

  // Whether what this step keeps is read neither by this call again nor, since it is so large, from a cache by the caller.
  TUTTI_HOST_DEVICE bool streams(cursor const& c) const noexcept {
    return streams_ && c.now.keep.where == space::output && c.me.phase + 1 == schedule_.phases(shape_) &&
           c.steps == 1 && !c.now.forwards();
  }

  // Slice `s` of peer k's message.
  TUTTI_HOST_DEVICE message_part part_of(int lane, region const& r, int k, std::size_t s) const noexcept {
    std::size_t const count = memory_.count(lane, r, k);
    message_part out{slice_of(count, slice_, s), false};
    out.more = out.range.end() < count;
    return out;
  }

  TUTTI_HOST_DEVICE bool travels(extent range, std::size_t s) const noexcept {
    return range.count > 0 || (announces_ && s == 0);
  }

  traffic<Transport, element> traffic_;
  Schedule schedule_;
  shape shape_;
  surfaces<element, Layout> const& memory_;
  Body body_;
  std::size_t slice_;  // elements
  bool streams_;
  bool announces_;  // a message without elements is sent too: the receiver may expect some
  int tracks_;
  union {
    cursor cursors_[max_tracks];  // of which the call has the first
  };
};

}  // namespace tutti::detail
