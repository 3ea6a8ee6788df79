// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes a schedule on symbols, and finds what is wrong with it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/circumstances.hpp"
#include "tutti/analyze/completion.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/deadlock.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/message_check.hpp"
#include "tutti/analyze/overwrite_check.hpp"
#include "tutti/analyze/receipt_check.hpp"
#include "tutti/analyze/result_check.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_channels.hpp"
#include "tutti/analyze/symbolic_memory.hpp"

namespace tutti::analyze {

// All cursors move as far as they can, in turn. That is enough to find every deadlock and every wrong value: no rank
// decides anything by the order of arrival, so each channel carries the same messages whatever the timing (Kahn, 1974),
// and a cursor that could move once can still move later. Timing has one degree of freedom: how far sending runs ahead
// of receiving within a step. A step whose result depends on it is rejected: one that overwrites data that it has yet
// to send.
template <step_function S>
class symbolic_execution {
 public:
  symbolic_execution(S const& schedule, collective what, shape s, circumstances const& how)
      : schedule_(schedule),
        what_(what),
        shape_(s),
        how_(how),
        phases_(schedule_.phases(shape_)),
        tracks_(schedule_.lanes(shape_) * phases_),
        memory_(what_, shape_, schedule_.lanes(shape_), schedule_.chunks(shape_), schedule_.scratch,
                schedule_.pipelined && phases_ == 1, how_),
        channels_(shape_.ranks, tracks_, how_),
        completed_(values_, what_, shape_.ranks),
        expect_sent_(memory_),
        waits_(static_cast<std::size_t>(shape_.ranks * tracks_)) {
    for (int r = 0; r < shape_.ranks; ++r)
      walks_.emplace_back(schedule_, shape_, r, memory_.sizes(r), static_cast<std::size_t>(how_.slice), how_.announces);
    for (int r = 0; r < shape_.ranks; ++r)
      memory_.for_each_element(r, space::input,
                               [&](contribution const& c, int cell) { memory_[cell] = values_.add(c); });
  }

  void run() {
    for (int r = 0; r < shape_.ranks; ++r)
      for (int track = 0; track < tracks_; ++track)
        if (!at(r, track).finished) locating(at(r, track), [&] { check_step(at(r, track)); });
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.ranks; ++r)
        for (int track = 0; track < tracks_; ++track)
          while (!at(r, track).finished && locating(at(r, track), [&] { return advance(r, track); })) moved = true;
    }
    for (int r = 0; r < shape_.ranks; ++r)
      for (int track = 0; track < tracks_; ++track)
        if (!at(r, track).finished) throw flaw{deadlock(r, track)};
    check_all_received(channels_, shape_.ranks, tracks_, phases_, how_.chunk());
    result_check check(values_, what_, shape_, how_.chunk());
    for (int r = 0; r < shape_.ranks; ++r)
      memory_.for_each_element(r, space::output, [&](contribution const& c, int cell) {
        check(c, memory_[cell], memory_[memory_.cell(0, space::output, c.lane, c.chunk, c.element)]);
      });
  }

 private:
  using value = expressions::value;
  using walk = tutti::detail::walk<S, symbolic_sizes>;
  using cursor = tutti::detail::cursor;
  using message_slice = tutti::detail::message_slice;

  // Calls f() and adds to a flaw that it finds where the cursor was.
  template <class F>
  auto locating(cursor const& c, F f) {
    try {
      return f();
    } catch (flaw const& found) {
      throw flaw{at(c) + found.why};
    }
  }

  // -- Moving.

  bool advance(int rank, int track) {
    cursor& c = at(rank, track);
    bool moved = receive(c);
    moved |= send(c);
    if (c.step_done()) {
      walks_[index(rank)].leave(c);
      if (!c.finished) check_step(c);
      moved = true;
    }
    return moved;
  }

  bool send(cursor& c) {
    wait& w = waits_[number(c)].sending = {};
    if (c.sent == c.end) return false;
    if (!c.may_send(walk_of(c).available(track_of(c)))) return w = on_phase(c), false;
    region const& give = c.now.give;
    int const peer = walk_of(c).peer(c.now.to, c.sending);
    message_slice const part = walk_of(c).slice(c.me.lane, give, c.sending, c.sent);
    if (peer != c.me.rank && walk_of(c).travels(part, c.sent)) {
      if (channels_.full(c.me.rank, peer, track_of(c)))
        return w = on_credit(c, peer, memory_.chunk_at(c.me, give, c.sending, part.range.begin)), false;
      memory_.find_readable(given_, c.me, give, c.sending, part.range);
      symbol* const symbols = channels_.push(c.me.rank, peer, track_of(c), part.range.count, part.more);
      for (std::size_t i = 0; i < given_.size(); ++i)
        symbols[i] = refer({memory_[given_[i].cell], given_[i].cell, given_[i].chunk, given_[i].element});
    }
    c.sent_to_one();
    return true;
  }

  bool receive(cursor& c) {
    wait& w = waits_[number(c)].receiving = {};
    std::size_t const available = walk_of(c).available(track_of(c));
    if (!c.may_receive(available)) {
      if (c.may_receive(c.end)) w = on_phase(c);
      return false;
    }
    return c.now.keep.split ? receive_next(c, w) : receive_combined(c, w);
  }

  // From each source into a chunk of its own.
  bool receive_next(cursor& c, wait& w) {
    int const k = c.receiving, peer = walk_of(c).peer(c.now.from, k);
    message_slice const part = walk_of(c).slice(c.me.lane, c.now.keep, k, c.received);
    if (walk_of(c).travels(part, c.received)) {
      if (!has_arrived(c, peer, k, part, w)) return false;
      memory_.find(kept_, c.me, c.now.keep, k, part.range);
      if (peer == c.me.rank) find_own(c, kept_, part.range);
      else expect(c, peer, part, kept_);
      // In place, the own chunk may be where it belongs: nothing is written, and peers may be reading it.
      if (peer != c.me.rank || !same_cells(own_, kept_)) {
        if (!writable(c, kept_, w)) return false;
        for (std::size_t i = 0; i < kept_.size(); ++i) memory_[kept_[i].cell] = read(c, peer, i);
      }
      if (peer != c.me.rank) channels_.pop(peer, c.me.rank, track_of(c));
    }
    c.received_from_one();
    return true;
  }

  // From all sources at once.
  bool receive_combined(cursor& c, wait& w) {
    step const& t = c.now;
    message_slice const part = walk_of(c).slice(c.me.lane, t.keep, 0, c.received);
    if (!walk_of(c).travels(part, c.received)) return c.received_from_all(), true;
    for (int k = 0; k < t.from.count; ++k)
      if (!has_arrived(c, walk_of(c).peer(t.from, k), 0, part, w)) return false;
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k)
        if (int const peer = walk_of(c).peer(t.to, k);
            peer != c.me.rank && channels_.full(c.me.rank, peer, track_of(c)))
          return w = on_credit(c, peer, memory_.chunk_at(c.me, t.keep, 0, part.range.begin)), false;
    memory_.find(kept_, c.me, t.keep, 0, part.range);
    if (t.keep.where != space::none && !writable(c, kept_, w)) return false;

    for (int k = 0; k < t.from.count; ++k) {
      int const peer = walk_of(c).peer(t.from, k);
      if (peer == c.me.rank) find_own(c, kept_, part.range);
      else expect(c, peer, part, kept_);
    }
    results_.clear();
    for (std::size_t i = 0; i < kept_.size(); ++i) results_.push_back(combine(c, i));
    for (int k = 0; k < t.from.count; ++k)
      if (int const peer = walk_of(c).peer(t.from, k); peer != c.me.rank) channels_.pop(peer, c.me.rank, track_of(c));
    if (t.keep.where != space::none)
      for (std::size_t i = 0; i < kept_.size(); ++i) memory_[kept_[i].cell] = results_[i];
    if (t.forwards()) forward(c, part);
    c.received_from_all();
    return true;
  }

  value combine(cursor const& c, std::size_t i) {
    value result = expressions::nothing;
    for (int k = 0; k < c.now.from.count; ++k) {
      value const next = read(c, walk_of(c).peer(c.now.from, k), i);
      if (c.now.reduces() && values_.finished(next))
        throw flaw{"combines chunk " + std::to_string(kept_[i].chunk) + ", which is complete already, once more"};
      result = result == expressions::nothing ? next : values_.combine(result, next);
    }
    return completed_(c.now, kept_[i].chunk, result);
  }

  void forward(cursor const& c, message_slice const& part) {
    for (int k = 0; k < c.now.to.count; ++k) {
      int const peer = walk_of(c).peer(c.now.to, k);
      if (peer == c.me.rank) continue;
      symbol* const symbols = channels_.push(c.me.rank, peer, track_of(c), part.range.count, part.more);
      for (std::size_t i = 0; i < kept_.size(); ++i)
        symbols[i] = refer({results_[i], kept_[i].cell, kept_[i].chunk, kept_[i].element});
    }
  }

  // -- Messages.

  symbol refer(symbol s) {
    if (!how_.direct || s.cell == nowhere) s.cell = nowhere;
    else ++memory_.readers(s.cell);
    return s;
  }

  // Element i of what source `peer` contributes to the slice.
  value read(cursor const& c, int peer, std::size_t i) {
    if (peer == c.me.rank) return memory_[own_[i].cell];
    symbol const& s = channels_.front(peer, c.me.rank, track_of(c)).symbols[i];
    if (s.cell == nowhere) return s.what;
    --memory_.readers(s.cell);
    return memory_[s.cell];
  }

  // Checks that the message at the head of the channel is the slice that is due.
  void expect(cursor const& c, int peer, message_slice const& part, places const& due) {
    check_message(channels_.front(peer, c.me.rank, track_of(c)), peer, part, due, what_, how_.chunk());
  }

  // Finds the contribution of this rank itself.
  void find_own(cursor const& c, places const& due, extent range) {
    memory_.find_readable(own_, c.me, c.now.own, 0, range);
    check_own(own_, due, what_);
  }

  // -- Each step by itself.

  void check_step(cursor const& c) {
    if (char const* const wrong = tutti::detail::flaw_in_step(c.now, c.me.rank, shape_, schedule_.pipelined))
      throw flaw{wrong};
    expect_sent_(walk_of(c), c);
  }

  // -- Waiting.

  bool has_arrived(cursor const& c, int peer, int k, message_slice const& part, wait& w) const {
    if (peer == c.me.rank || !channels_.empty(peer, c.me.rank, track_of(c))) return true;
    w = {peer, track_of(c), wait::for_message, memory_.chunk_at(c.me, c.now.keep, k, part.range.begin)};
    return false;
  }
  bool writable(cursor const& c, places const& to, wait& w) {
    for (place const& p : to)
      if (memory_.readers(p.cell) != 0) {
        auto const [reader, track] = channels_.find_reader(c.me.rank, p.cell);
        w = {reader, track, wait::for_reader, p.chunk};
        return false;
      }
    return true;
  }
  wait on_phase(cursor const& c) const { return {c.me.rank, track_of(c) - 1, wait::for_phase, 0}; }
  wait on_credit(cursor const& c, int peer, int chunk) const { return {peer, track_of(c), wait::for_room, chunk}; }

  std::string deadlock(int rank, int track) const {
    return describe_deadlock(
        number(at(rank, track)), [&](std::size_t i) { return waits_[i].any(); },
        [&](wait const& w) { return number(at(w.rank, w.track)); },
        [&](std::size_t i) -> std::string {
          cursor const& c = at(static_cast<int>(i) / tracks_, static_cast<int>(i) % tracks_);
          return c.finished ? "" : at(c);
        });
  }

  // -- Names and numbers.

  std::string at(cursor const& c) const {
    return "rank " + std::to_string(c.me.rank) + ", " + track_name(track_of(c), phases_) + ", step " +
           std::to_string(c.index) + ": ";
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int track_of(cursor const& c) const { return c.me.lane * phases_ + c.me.phase; }
  std::size_t number(cursor const& c) const { return index(c.me.rank * tracks_ + track_of(c)); }
  walk const& walk_of(cursor const& c) const { return walks_[index(c.me.rank)]; }
  cursor& at(int rank, int track) { return walks_[index(rank)][track]; }
  cursor const& at(int rank, int track) const { return walks_[index(rank)][track]; }

  S schedule_;
  collective what_;
  shape shape_;
  circumstances how_;
  int phases_, tracks_;
  expressions values_;
  symbolic_memory memory_;
  symbolic_channels channels_;
  completion completed_;
  overwrite_check expect_sent_;
  std::vector<walk> walks_;
  std::vector<waits> waits_;
  places given_, kept_, own_;  // of the slice that moves now
  std::vector<value> results_;
};

}  // namespace tutti::analyze
