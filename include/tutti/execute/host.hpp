// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule on the host: cursors that walk through steps and slices, moved by poll().
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/algorithm/concept.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/surprise.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// Memory that a peer may still be reading: the message that refers to it, and where it is.
struct reference {
  int peer;
  int track;
  std::uint64_t message;
  void const* begin;
  void const* end;
};

// The references of the running call: kept by the communicator, so that a call allocates nothing once the list has grown.
using reference_list = std::vector<reference>;

// How the messages of a call travel where they are not staged. All ranks agree on it but for `refers`.
struct access {
  bool refers = false;           // a receiver reads what it can address in place
  bool pulls = false;            // and fetches what it cannot; then `refers` too
  std::size_t slice = 0;         // bytes of a message that are in flight at once
  std::byte* fetched = nullptr;  // room for a slice of every peer, where values are combined
  bool streams = false;          // the output is too large to be read from a cache afterwards
};

// One running collective. Its state is a few integers a cursor; blocking and non-blocking calls drive it in the same way.
// Nothing here throws: a surprise ends the execution and is left for the caller to report.
template <transport Transport, step_function Schedule, class Body>
class execution {
 public:
  using element = typename Body::element;

  // Elements that fit in a message.
  static constexpr std::size_t slot_elements = Transport::slice_bytes / sizeof(element);
  static_assert(alignof(element) <= cache_line, "an element may be aligned to a line of cache (64 bytes) at most");
  static_assert(slot_elements > 0,
                "an element must fit into a slice (16 KiB over shared memory); send larger structs in parts");

  execution(Transport& transport, reference_list& references, Schedule schedule, shape s,
            surfaces<element> const& memory, Body body, std::uint32_t tag, access const& how, bool announces)
      : transport_(transport),
        references_(references),
        schedule_(schedule),
        shape_(s),
        memory_(memory),
        body_(body),
        tag_(tag),
        how_(how),
        slice_(how.slice / sizeof(element)),
        announces_(announces),
        tracks_(std::min(schedule.lanes(s) * schedule.phases(s), max_tracks)) {
    references_.clear();
    std::uninitialized_default_construct_n(cursors_, tracks_);
    for (int t = 0; t < tracks_; ++t) {
      cursor& c = cursors_[t];
      c.me = {transport.rank(), t / schedule.phases(s), t % schedule.phases(s)};
      c.steps = schedule.steps(s, c.me);
      c.slices = schedule.pipelined ? slices(largest_chunk(c.me.lane), slice_) : 1;
      c.finished = c.steps == 0 || c.slices == 0;
      if (!c.finished) enter(c);
    }
  }

  // Moves every cursor as far as it goes without waiting.
  progress poll() noexcept {
    bool moved = false, finished = true;
    for (int t = 0; t < tracks_; ++t) {
      while (advance(t)) moved = true;
      if (surprise_) return progress::done;
      finished &= cursors_[t].finished;
    }
    if (finished && nothing_pending()) return progress::done;
    return moved ? progress::moved : progress::stuck;
  }

  surprise const& found() const noexcept { return surprise_; }

 private:
  static constexpr bool maps = maps_memory<Transport>;

  // Below it, a copy through a slot takes less than the call of the system that fetches.
  static constexpr std::size_t least_fetched = 4096;

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

  // What lies at the head of a channel, as elements.
  struct view {
    element const* data;
    bool foreign;  // in the peer's process
  };

  // -- The cursor's way: slices within steps, or steps within slices.

  void enter(cursor& c) noexcept {
    // Made where it stays: a copy would wait for what was just stored.
    ::new (&c.now) step(schedule_.at(shape_, c.me, c.index));
    c.sent = c.received = schedule_.pipelined ? c.turn : 0;
    c.end = schedule_.pipelined ? c.turn + 1 : step_slices(c);
    c.sending = c.receiving = 0;
    if (c.now.to.empty() || c.now.forwards()) c.sent = c.end;
    if (c.now.from.empty()) c.received = c.end;
  }

  void leave(cursor& c) noexcept {
    if (++c.index == c.steps) {
      c.index = 0;
      if (++c.turn == c.slices) {
        c.finished = true;
        return;
      }
    }
    enter(c);
  }

  std::size_t step_slices(cursor const& c) const noexcept {
    std::size_t const out = region_slices(c.me.lane, c.now.give), in = region_slices(c.me.lane, c.now.keep);
    bool const sends = !c.now.to.empty() && !c.now.forwards(), receives = !c.now.from.empty();
    return std::max({sends ? out : 0, receives ? in : 0, std::size_t{announces_}});
  }

  std::size_t region_slices(int lane, region const& r) const noexcept {
    layout const& where = layout_of(r.where);
    if (!r.split) return slices(where.count(lane, r.what), slice_);
    std::size_t most = 0;
    for (int k = 0; k < r.what.count; ++k) {
      std::size_t const n = slices(where.at(lane, r.what.at(k, where.parts())).count, slice_);
      if (n > most) most = n;
    }
    return most;
  }

  std::size_t largest_chunk(int lane) const noexcept {
    layout const& where = memory_.scratch.where;
    std::size_t most = 0;
    for (int c = 0; c < where.parts(); ++c)
      if (std::size_t const n = where.at(lane, c).count; n > most) most = n;
    return most;
  }

  // The slices that the phase before has done with.
  std::size_t available(int track) const noexcept {
    cursor const& c = cursors_[track];
    if (c.me.phase == 0) return static_cast<std::size_t>(-1);
    cursor const& before = cursors_[track - 1];
    if (before.finished) return static_cast<std::size_t>(-1);
    if (schedule_.pipelined) return before.turn;
    if (before.index < before.steps - 1) return 0;
    return before.sent < before.received ? before.sent : before.received;
  }

  // One message sent or one slice received; false where nothing can be done now.
  bool advance(int track) noexcept {
    cursor& c = cursors_[track];
    if (c.finished) return false;
    std::size_t const limit = available(track);
    bool moved = false;
    if (c.sent < c.end && c.sent < limit) moved |= send(c, track);
    if (c.received < c.end && c.received < limit && (c.sent > c.received || c.sent == c.end)) {
      moved |= c.now.keep.split ? receive_next(c, track) : receive(c, track);
      if (surprise_) return false;
    }
    if (c.sent == c.end && c.received == c.end) {
      leave(c);
      return true;
    }
    return moved;
  }

  // -- Sending what lies in memory.

  bool send(cursor& c, int track) noexcept {
    region const& give = c.now.give;
    int const peer = c.now.to.at(c.sending, shape_.ranks);
    message_part const part = part_of(c.me.lane, give, c.sending, c.sent);
    extent const& range = part.range;
    if (peer != c.me.rank && travels(range, c.sent)) {
      std::size_t const bytes = range.count * sizeof(element);
      std::byte* const place = transport_.claim(peer, track, bytes, alignof(element));
      if (place == nullptr) return false;
      if (range.count == 0) transport_.publish(peer, track, 0, false, tag_);
      bool const raw = Body::prepares && give.where == space::input;
      for_each_piece(c.me.lane, give, share(give, c.sending), range,
                     [&](element const* from, std::size_t offset, std::size_t n) {
                       if (n == range.count && !raw && refers(from, bytes))
                         return refer(peer, track, from, bytes, part.more);
                       put(from, reinterpret_cast<element*>(place) + offset, n, raw);
                       if (offset + n == range.count) transport_.publish(peer, track, bytes, part.more, tag_);
                     });
    }
    if (++c.sending == c.now.to.count) {
      c.sending = 0;
      ++c.sent;
    }
    return true;
  }

  // Into a slot; `raw`: through the operation's prologue.
  void put(element const* from, element* to, std::size_t n, bool raw) noexcept {
    if constexpr (maps) {
      auto const trial = raw ? store_gauge::trial{} : transport_.gauge().begin(n * sizeof(element));
      body_(&from, 1, &to, 1, n, {.prepare = raw ? 0 : -1, .stream = trial.stream});
      transport_.gauge().end(trial, n * sizeof(element));
    } else {
      body_(&from, 1, &to, 1, n, {.prepare = raw ? 0 : -1});
    }
  }

  // -- Receiving a slice from all sources at once, combining it, and passing it on.

  bool receive(cursor& c, int track) noexcept {
    step const& t = c.now;
    message_part const part = part_of(c.me.lane, t.keep, 0, c.received);
    extent const& range = part.range;
    if (travels(range, c.received)) {
      std::size_t const bytes = range.count * sizeof(element);
      view sources[max_ranks];
      int self = -1;
      for (int k = 0; k < t.from.count; ++k) {
        int const peer = t.from.at(k, shape_.ranks);
        if (peer == c.me.rank) self = k;
        else if (!arrived(peer, track, bytes, part.more, sources[k])) return false;
      }
      if (range.count > 0 && !combine_slice(c, track, part, sources, self)) return false;
      for (int k = 0; k < t.from.count; ++k)
        if (k != self) transport_.release(t.from.at(k, shape_.ranks), track);
    }
    ++c.received;
    return true;
  }

  bool combine_slice(cursor const& c, int track, message_part part, view* arrived, int self) noexcept {
    step const& t = c.now;
    extent const& range = part.range;
    std::size_t const bytes = range.count * sizeof(element);
    bool const keeps = t.keep.where != space::none;
    if (keeps && !writable(c.me.lane, t.keep, t.keep.what, range)) return false;

    // Where the result is kept in memory that peers can read, they read it there.
    bool refer_kept = false;
    if (t.forwards() && keeps)
      for_each_piece(c.me.lane, t.keep, t.keep.what, range, [&](element const* kept, std::size_t, std::size_t n) {
        refer_kept = n == range.count && refers(kept, bytes);
      });
    element* claimed[max_ranks];
    int outgoing = 0;
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k) {
        int const peer = t.to.at(k, shape_.ranks);
        if (peer == c.me.rank) continue;
        std::byte* const place = transport_.claim(peer, track, bytes, alignof(element));
        if (place == nullptr) return false;
        if (!refer_kept) claimed[outgoing++] = reinterpret_cast<element*>(place);
      }

    if (maps && how_.pulls) {
      if (t.from.count == 1 && self < 0 && arrived[0].foreign && !t.complete)
        return fetch_slice(c, t.from.at(0, shape_.ranks), t.keep.what, range, arrived[0]);
      for (int k = 0; k < t.from.count; ++k)
        if (k != self && arrived[k].foreign && !fetch(t.from.at(k, shape_.ranks), k, arrived[k], bytes)) return false;
    }

    bool const raw = self >= 0 && t.own.where == space::input;
    stage const how{.prepare = raw ? self : -1, .finish = t.complete ? shape_.ranks : 0, .stream = streams(c)};
    element const* kept_at = nullptr;
    auto const piece = [&](element* kept, element const* own, std::size_t offset, std::size_t n) {
      element const* sources[max_ranks];
      element* destinations[max_ranks];
      for (int k = 0; k < t.from.count; ++k) sources[k] = k == self ? own : arrived[k].data + offset;
      int count = 0;
      for (; count < outgoing; ++count) destinations[count] = claimed[count] + offset;
      if (kept != nullptr) destinations[count++] = kept;
      body_(sources, t.from.count, destinations, count, n, how);
      if (offset == 0) kept_at = kept;
    };
    // Pieces are cut where the kept region is cut and, within, where the own one is.
    auto const with_own = [&](element* kept, std::size_t offset, std::size_t n) {
      if (self < 0) return piece(kept, nullptr, offset, n);
      for_each_piece(c.me.lane, t.own, t.own.what, {range.begin + offset, n},
                     [&](element const* own, std::size_t inner, std::size_t m) {
                       piece(kept == nullptr ? nullptr : kept + inner, own, offset + inner, m);
                     });
    };
    if (keeps) for_each_writable_piece(c.me.lane, t.keep, t.keep.what, range, with_own);
    else with_own(nullptr, 0, range.count);

    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k) {
        int const peer = t.to.at(k, shape_.ranks);
        if (peer == c.me.rank) continue;
        if (refer_kept) refer(peer, track, kept_at, bytes, part.more);
        else transport_.publish(peer, track, bytes, part.more, tag_);
      }
    return true;
  }

  // -- Receiving a slice from each source into a chunk of its own.

  bool receive_next(cursor& c, int track) noexcept {
    step const& t = c.now;
    int const peer = t.from.at(c.receiving, shape_.ranks);
    message_part const part = part_of(c.me.lane, t.keep, c.receiving, c.received);
    extent const& range = part.range;
    if (travels(range, c.received)) {
      chunks const chunk = share(t.keep, c.receiving);
      view from{};
      element* kept = nullptr;
      for_each_writable_piece(c.me.lane, t.keep, chunk, range,
                              [&](element* data, std::size_t, std::size_t) { kept = data; });
      if (peer == c.me.rank)
        for_each_piece(c.me.lane, t.own, t.own.what, range,
                       [&](element const* data, std::size_t, std::size_t) { from.data = data; });
      else if (!arrived(peer, track, range.count * sizeof(element), part.more, from)) return false;
      // In place, the own chunk is where it belongs, and peers may be reading it.
      if (range.count > 0 && (from.foreign || from.data != kept)) {
        if (!writable(c.me.lane, t.keep, chunk, range)) return false;
        if (maps && from.foreign) {
          if (!fetch_slice(c, peer, chunk, range, from)) return false;
        } else {
          body_(&from.data, 1, &kept, 1, range.count, {.stream = streams(c)});
        }
      }
      if (peer != c.me.rank) transport_.release(peer, track);
    }
    if (++c.receiving == t.from.count) {
      c.receiving = 0;
      ++c.received;
    }
    return true;
  }

  bool arrived(int peer, int track, std::size_t bytes, bool more, view& out) noexcept {
    arrival const message = transport_.look(peer, track, tag_);
    if (message.state == arrival::nothing) return false;
    if (!message || message.bytes != bytes || message.more != more) {
      surprise_ = {peer, message.state == arrival::stranger, 0, message.bytes, message.more, bytes, more};
      return false;
    }
    out = {reinterpret_cast<element const*>(message.data), message.foreign};
    return true;
  }

  // -- Memory that peers read directly.

  bool refers(void const* data, std::size_t bytes) const noexcept {
    if constexpr (maps) {
      if (!how_.refers || bytes <= inline_bytes) return false;
      return transport_.reaches(data, bytes) || (how_.pulls && bytes >= least_fetched);
    } else {
      return false;
    }
  }

  void refer(int peer, int track, element const* data, std::size_t bytes, bool more) noexcept {
    if constexpr (maps) {
      if (transport_.reaches(data, bytes)) transport_.refer(peer, track, data, bytes, more, tag_);
      else transport_.refer_foreign(peer, track, data, bytes, more, tag_);
      // It has room for one in every slot of every channel, so a list that is full has old ones to forget.
      if (references_.size() == references_.capacity())
        std::erase_if(references_, [&](reference const& r) { return transport_.consumed(r.peer, r.track, r.message); });
      references_.push_back({peer, track, transport_.published(peer, track), data, data + bytes / sizeof(element)});
    }
  }

  // Whether this rank is needed for nothing any more.
  bool nothing_pending() noexcept {
    if constexpr (sends_later<Transport>) return transport_.all_sent();
    else return no_references(nullptr, nullptr);
  }

  // Whether no peer has still to read [begin, end), or anything at all where that is null. Forgets what was read.
  bool no_references(void const* begin, void const* end) noexcept {
    auto& list = references_;
    if constexpr (maps) {
      for (std::size_t i = 0; i < list.size();) {
        reference const& r = list[i];
        if (begin != nullptr && (end <= r.begin || r.end <= begin)) {
          ++i;
        } else if (transport_.consumed(r.peer, r.track, r.message)) {
          list[i] = list.back();
          list.pop_back();
        } else {
          return false;
        }
      }
    }
    return true;
  }

  bool writable(int lane, region const& r, chunks const& what, extent range) noexcept {
    if (references_.empty()) return true;
    bool free = true;
    for_each_piece(lane, r, what, range, [&](element const* data, std::size_t, std::size_t n) {
      free = free && no_references(data, data + n);
    });
    return free;
  }

  // -- Memory that is fetched from a peer's process.

  // Into this rank's room for what source k sends, to be combined there.
  bool fetch(int peer, int k, view& from, std::size_t bytes) noexcept {
    std::byte* const to = how_.fetched + static_cast<std::size_t>(k) * how_.slice;
    if (!fetch(peer, to, reinterpret_cast<std::byte const*>(from.data), bytes)) return false;
    from = {reinterpret_cast<element const*>(to), false};
    return true;
  }

  // To where it is kept.
  bool fetch_slice(cursor const& c, int peer, chunks const& what, extent range, view const& from) noexcept {
    bool all = true;
    for_each_writable_piece(c.me.lane, c.now.keep, what, range, [&](element* kept, std::size_t offset, std::size_t n) {
      all = all && fetch(peer, reinterpret_cast<std::byte*>(kept),
                         reinterpret_cast<std::byte const*>(from.data + offset), n * sizeof(element));
    });
    return all;
  }

  // Of a peer that has ended, the caller learns while it waits.
  bool fetch(int peer, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    if constexpr (maps) {
      int const refused = transport_.fetch(peer, to, from, bytes);
      if (refused != 0 && refused != ESRCH) surprise_ = {.peer = peer, .refused = refused};
      return refused == 0;
    } else {
      return false;
    }
  }

  // Whether what this step keeps is read neither by this call again nor, since it is so large, from a cache by the caller.
  bool streams(cursor const& c) const noexcept {
    return how_.streams && c.now.keep.where == space::output && c.me.phase + 1 == schedule_.phases(shape_) &&
           c.steps == 1 && !c.now.forwards();
  }

  // -- From regions to memory.

  // The chunks of peer k's message.
  chunks share(region const& r, int k) const noexcept {
    return r.split ? chunks{r.what.at(k, layout_of(r.where).parts())} : r.what;
  }

  // Slice `s` of peer k's message.
  message_part part_of(int lane, region const& r, int k, std::size_t s) const noexcept {
    std::size_t const count = layout_of(r.where).count(lane, share(r, k));
    message_part out{slice_of(count, slice_, s), false};
    out.more = out.range.end() < count;
    return out;
  }

  bool travels(extent range, std::size_t s) const noexcept { return range.count > 0 || (announces_ && s == 0); }

  // A region that is only passed on has the sizes that all spaces share.
  layout const& layout_of(space where) const noexcept {
    if (where == space::input) return memory_.input.where;
    if (where == space::output) return memory_.output.where;
    return memory_.scratch.where;
  }

  template <class F>
  void for_each_piece(int lane, region const& r, chunks const& what, extent range, F&& f) const {
    if (r.where == space::input) memory_.input.for_each_piece(lane, what, range, f);
    else for_each_writable_piece(lane, r, what, range, f);
  }
  template <class F>
  void for_each_writable_piece(int lane, region const& r, chunks const& what, extent range, F&& f) const {
    (r.where == space::output ? memory_.output : memory_.scratch).for_each_piece(lane, what, range, f);
  }

  Transport& transport_;
  reference_list& references_;
  Schedule schedule_;
  shape shape_;
  surfaces<element> const& memory_;
  Body body_;
  std::uint32_t tag_;
  access how_;
  std::size_t slice_;  // elements
  bool announces_;     // a message without elements is sent too: the receiver may expect some
  int tracks_;
  union {
    cursor cursors_[max_tracks];  // of which the call has the first
  };
  surprise surprise_{};
};

}  // namespace tutti
