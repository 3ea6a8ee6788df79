// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves that a schedule is right for given ranks, by executing it on symbols: each contribution arrives once and in a legal
// order, all ranks get the same bits, no rank touches memory that it does not have, and nothing deadlocks.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/deadlock.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/result_check.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_memory.hpp"

namespace tutti::analyze {

struct verdict {
  bool ok = true;
  std::string why;  // where not ok: rank, lane, phase, step, chunk, and what is wrong there, in a sentence

  explicit operator bool() const { return ok; }
};

// All cursors move as far as they can, in turn. That is enough to find every deadlock and every wrong value: no rank decides
// anything by what arrives first, so each channel carries the same messages whatever the timing (Kahn, 1974), and what could
// move once can still move later. Timing has one choice, how far sending runs ahead of receiving within a step, and a step
// whose result depends on it is refused: one that overwrites what it has still to send.
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
        chunks_(schedule_.chunks(shape_)),
        memory_(what_, shape_, schedule_.lanes(shape_), chunks_, schedule_.pipelined && phases_ == 1, how_),
        channels_(shape_.ranks, tracks_, how_),
        given_in_(memory_.cells()),
        waits_(static_cast<std::size_t>(shape_.ranks * tracks_)) {
    for (int r = 0; r < shape_.ranks; ++r) sizes_.emplace_back(what_, r, chunks_, how_);
    for (int r = 0; r < shape_.ranks; ++r)
      walks_.emplace_back(schedule_, shape_, r, sizes_[index(r)], static_cast<std::size_t>(how_.slice), how_.announces);
    for (int r = 0; r < shape_.ranks; ++r)
      for_each_element(r, space::input, [&](contribution const& c, int cell) { memory_[cell] = values_.add(c); });
  }

  void run() {
    for (int r = 0; r < shape_.ranks; ++r)
      for (int track = 0; track < tracks_; ++track)
        if (!at(r, track).finished) check_step(at(r, track));
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.ranks; ++r)
        for (int track = 0; track < tracks_; ++track)
          while (!at(r, track).finished && advance(r, track)) moved = true;
    }
    for (int r = 0; r < shape_.ranks; ++r)
      for (int track = 0; track < tracks_; ++track)
        if (!at(r, track).finished) throw flaw{deadlock(r, track)};
    check_channels();
    result_check const check(values_, what_, shape_, how_.chunk());
    for (int r = 0; r < shape_.ranks; ++r)
      for_each_element(r, space::output, [&](contribution const& c, int cell) {
        check(c, memory_[cell], memory_[memory_.cell(0, space::output, c.lane, c.chunk, c.element)]);
      });
  }

 private:
  using value = expressions::value;
  using walk = tutti::detail::walk<S, symbolic_sizes>;
  using cursor = tutti::detail::cursor;
  using message_slice = tutti::detail::message_slice;

  // An element of a slice: its chunk, and where it lies.
  struct place {
    int chunk;
    int element;
    int cell;
  };
  using places = std::vector<place>;
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
      find(given_, c, give, c.sending, part.range, "reads");
      for (place const& p : given_) expect_written(c, give, p);
      if (channels_.full(c.me.rank, peer, track_of(c)))
        return w = on_credit(c, peer, first_chunk(give, c.sending, given_)), false;
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
      find(kept_, c, c.now.keep, k, part.range, "writes");
      if (!has_arrived(c, peer, first_chunk(c.now.keep, k, kept_), w)) return false;
      if (peer == c.me.rank) find_own(c, kept_, part.range);
      else expect(c, peer, part, kept_);
      if (peer != c.me.rank || !stays()) {
        if (!writable(c, kept_, w)) return false;
        for (std::size_t i = 0; i < kept_.size(); ++i) memory_[kept_[i].cell] = take(c, peer, i);
      }
      if (peer != c.me.rank) channels_.pop(peer, c.me.rank, track_of(c));
    }
    c.received_from_one();
    return true;
  }

  // In place, the own chunk may be where it belongs: nothing is written, and peers may be reading it.
  bool stays() const {
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (own_[i].cell != kept_[i].cell) return false;
    return true;
  }

  // From all sources at once.
  bool receive_combined(cursor& c, wait& w) {
    step const& t = c.now;
    message_slice const part = walk_of(c).slice(c.me.lane, t.keep, 0, c.received);
    if (!walk_of(c).travels(part, c.received)) return c.received_from_all(), true;
    find(kept_, c, t.keep, 0, part.range, "writes");
    int const chunk = first_chunk(t.keep, 0, kept_);
    for (int k = 0; k < t.from.count; ++k)
      if (!has_arrived(c, walk_of(c).peer(t.from, k), chunk, w)) return false;
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k)
        if (int const peer = walk_of(c).peer(t.to, k);
            peer != c.me.rank && channels_.full(c.me.rank, peer, track_of(c)))
          return w = on_credit(c, peer, chunk), false;
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
      value const next = take(c, walk_of(c).peer(c.now.from, k), i);
      if (c.now.reduces() && values_.finished(next))
        throw flaw{at(c) + "combines " + chunk_name(kept_[i]) + ", which is complete already, once more"};
      result = result == expressions::nothing ? next : values_.combine(result, next);
    }
    return completed(c, kept_[i], result);
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

  // `complete` belongs to the step that combines the last contribution, and to no other.
  value completed(cursor const& c, place const& p, value v) {
    if (what_ == collective::barrier) return v;
    bool const due = completes(what_) && c.now.reduces() && has_all(v);
    if (due && !c.now.complete)
      throw flaw{at(c) + "combines the last contribution to " + chunk_name(p) +
                 " and does not say that it is complete"};
    if (!due && c.now.complete)
      throw flaw{at(c) + "says that " + chunk_name(p) + " is complete where no last contribution is combined"};
    return due ? values_.finish(v) : v;
  }

  // Whether it holds one contribution of each rank.
  bool has_all(value v) {
    if (values_.count(v) != shape_.ranks) return false;
    auto const [found, added] = has_all_.try_emplace(v, true);
    if (added) {
      std::vector<bool> seen(index(shape_.ranks));
      for (contribution const& c : values_.flat(v, seen.size())) seen[index(c.rank)] = true;
      for (bool const rank : seen) found->second &= rank;
    }
    return found->second;
  }

  // -- Messages.

  symbol refer(symbol s) {
    if (!how_.direct || s.cell == nowhere) s.cell = nowhere;
    else ++memory_.readers(s.cell);
    return s;
  }

  // Element i of what source `peer` contributes to the slice.
  value take(cursor const& c, int peer, std::size_t i) {
    if (peer == c.me.rank) return memory_[own_[i].cell];
    symbol const& s = channels_.front(peer, c.me.rank, track_of(c)).symbols[i];
    if (s.cell == nowhere) return s.what;
    --memory_.readers(s.cell);
    return memory_[s.cell];
  }

  // What arrives is the slice that is due.
  void expect(cursor const& c, int peer, message_slice const& part, places const& due) {
    auto const found = channels_.front(peer, c.me.rank, track_of(c));
    for (std::size_t i = 0; i < due.size() && i < index(found.count); ++i) {
      symbol const& s = found.symbols[i];
      if ((s.chunk != due[i].chunk && !renumbers(what_)) || s.element != due[i].element)
        throw flaw{at(c) + "expects " + label(due[i].chunk, due[i].element) + " from rank " + std::to_string(peer) +
                   ", which sent " + label(s.chunk, s.element)};
    }
    if (index(found.count) != part.range.count || found.more != part.more)
      throw flaw{at(c) + "expects a slice of " + count_of(static_cast<int>(part.range.count), "element") +
                 (part.more ? " and more" : "") + " from rank " + std::to_string(peer) + ", which sent " +
                 std::to_string(found.count) + (found.more ? " and more" : "")};
  }

  // -- Memory.

  // Calls f(contribution, cell) for what a rank has in its input or output.
  template <class F>
  void for_each_element(int rank, space where, F f) const {
    holding const held = where == space::input ? input_of(what_, shape_, rank) : output_of(what_, shape_, rank);
    for (int chunk = 0; chunk < chunks_; ++chunk)
      if (has(held, rank, chunk))
        for (int lane = 0; lane < tracks_ / phases_; ++lane)
          for (int e = 0; e < static_cast<int>(sizes_[index(rank)].at(where, lane, chunk)); ++e)
            f(contribution{rank, lane, chunk, e}, memory_.cell(rank, where, lane, chunk, e));
  }

  // The places of a range of the message to or from peer k.
  void find(places& out, cursor const& c, region const& r, int k, extent range, char const* verb) const {
    out.clear();
    std::size_t begin = 0;
    int const first = r.split ? k : 0, last = r.split ? k + 1 : r.what.count;
    for (int i = first; i < last && begin < range.end(); ++i) {
      int const chunk = r.what.at(i, chunks_);
      std::size_t const length = sizes_[index(c.me.rank)].at(r.where, c.me.lane, chunk);
      if (begin + length > range.begin && r.where != space::none) expect_there(c, r.where, chunk, verb);
      for (std::size_t e = range.begin > begin ? range.begin - begin : 0; e < length && begin + e < range.end(); ++e)
        out.push_back({chunk, static_cast<int>(e),
                       r.where == space::none
                           ? nowhere
                           : memory_.cell(c.me.rank, r.where, c.me.lane, chunk, static_cast<int>(e))});
      begin += length;
    }
  }

  void find_own(cursor const& c, places const& due, extent range) {
    find(own_, c, c.now.own, 0, range, "reads");
    if (own_.size() != due.size())
      throw flaw{at(c) + "contributes " + count_of(static_cast<int>(own_.size()), "element") + " to " +
                 std::to_string(due.size())};
    for (std::size_t i = 0; i < due.size(); ++i) {
      if (own_[i].chunk != due[i].chunk && !renumbers(what_))
        throw flaw{at(c) + "takes its own chunk " + std::to_string(own_[i].chunk) + " for " + chunk_name(due[i])};
      expect_written(c, c.now.own, own_[i]);
    }
  }

  void expect_there(cursor const& c, space where, int chunk, char const* verb) const {
    bool const there = where == space::input    ? has(input_of(what_, shape_, c.me.rank), c.me.rank, chunk)
                       : where == space::output ? has(output_of(what_, shape_, c.me.rank), c.me.rank, chunk)
                                                : schedule_.scratch;
    if (!there) throw flaw{at(c) + verb + " " + name(where, chunk) + " that it does not have"};
  }
  void expect_written(cursor const& c, region const& r, place const& p) const {
    if (memory_[p.cell] == expressions::nothing)
      throw flaw{at(c) + "reads " + name(r.where, p.chunk) + ", which nobody wrote"};
  }

  // -- Each step by itself.

  void check_step(cursor const& c) {
    if (char const* const wrong = complaint_about(c.now, c.me.rank, shape_, schedule_.pipelined))
      throw flaw{at(c) + wrong};
    bool const sends = !c.now.to.empty() && !c.now.forwards();
    if (sends && !c.now.from.empty() && c.now.keep.where != space::none && c.end - c.sent > 1) check_order(c);
  }

  // While slice s is received, slices up to s alone are known to have been sent.
  void check_order(cursor const& c) {
    ++stamp_;
    for (std::size_t s = 0; s < c.end; ++s)
      for (int k = 0; k < (c.now.give.split ? c.now.to.count : 1); ++k) {
        find(given_, c, c.now.give, k, walk_of(c).slice(c.me.lane, c.now.give, k, s).range, "reads");
        for (place const& p : given_) given_in_[index(p.cell)] = {stamp_, s};
      }
    for (std::size_t s = 0; s < c.end; ++s)
      for (int k = 0; k < (c.now.keep.split ? c.now.from.count : 1); ++k) {
        extent const range = walk_of(c).slice(c.me.lane, c.now.keep, k, s).range;
        find(kept_, c, c.now.keep, k, range, "writes");
        if (c.now.keep.split && walk_of(c).peer(c.now.from, k) == c.me.rank) {
          find(own_, c, c.now.own, 0, range, "reads");
          if (own_.size() == kept_.size() && stays()) continue;
        }
        for (place const& p : kept_)
          if (given_in_[index(p.cell)].stamp == stamp_ && given_in_[index(p.cell)].slice > s)
            throw flaw{at(c) + "overwrites " + name(c.now.keep.where, p.chunk) + " before it is sent"};
      }
  }

  // -- Waiting.

  bool has_arrived(cursor const& c, int peer, int chunk, wait& w) const {
    if (peer == c.me.rank || !channels_.empty(peer, c.me.rank, track_of(c))) return true;
    w = {peer, track_of(c), wait::for_message, chunk};
    return false;
  }
  bool writable(cursor const& c, places const& to, wait& w) {
    for (place const& p : to)
      if (memory_.readers(p.cell) != 0) {
        auto const [reader, track] = reader_of(c.me.rank, p.cell);
        w = {reader, track, wait::for_reader, p.chunk};
        return false;
      }
    return true;
  }
  std::pair<int, int> reader_of(int owner, int cell) {
    for (int peer = 0; peer < shape_.ranks; ++peer)
      for (int track = 0; track < tracks_; ++track)
        for (int i = 0; i < channels_.length(owner, peer, track); ++i) {
          auto const message = channels_.at(owner, peer, track, i);
          for (int e = 0; e < message.count; ++e)
            if (message.symbols[e].cell == cell) return {peer, track};
        }
    return {owner, 0};
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

  void check_channels() {
    for (int from = 0; from < shape_.ranks; ++from)
      for (int to = 0; to < shape_.ranks; ++to)
        for (int track = 0; track < tracks_; ++track) {
          if (channels_.empty(from, to, track)) continue;
          auto const m = channels_.front(from, to, track);
          throw flaw{"rank " + std::to_string(from) + ", " + track_name(track) + ": sends " +
                     (m.count == 0 ? "an empty message" : label(m.symbols->chunk, m.symbols->element)) + " to rank " +
                     std::to_string(to) + ", which never receives it"};
        }
  }

  // -- Names and numbers.

  static std::string name(space where, int chunk) {
    static constexpr char const* names[] = {"no", "input", "output", "scratch"};
    return std::string(names[static_cast<int>(where)]) + " chunk " + std::to_string(chunk);
  }
  static std::string chunk_name(place const& p) { return "chunk " + std::to_string(p.chunk); }
  std::string label(int chunk, int element) const { return label_of(chunk, element, how_.chunk()); }
  std::string track_name(int track) const {
    return "lane " + std::to_string(track / phases_) + ", phase " + std::to_string(track % phases_);
  }
  std::string at(cursor const& c) const {
    return "rank " + std::to_string(c.me.rank) + ", " + track_name(track_of(c)) + ", step " + std::to_string(c.index) +
           ": ";
  }
  int first_chunk(region const& r, int k, places const& found) const {
    return found.empty() ? r.what.at(r.split ? k : 0, chunks_) : found.front().chunk;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int track_of(cursor const& c) const { return c.me.lane * phases_ + c.me.phase; }
  std::size_t number(cursor const& c) const { return index(c.me.rank * tracks_ + track_of(c)); }
  walk const& walk_of(cursor const& c) const { return walks_[index(c.me.rank)]; }
  cursor& at(int rank, int track) { return walks_[index(rank)][track]; }
  cursor const& at(int rank, int track) const { return walks_[index(rank)][track]; }

  struct given {
    int stamp = 0;  // of the step
    std::size_t slice = 0;
  };

  S schedule_;
  collective what_;
  shape shape_;
  circumstances how_;
  int phases_, tracks_, chunks_;
  expressions values_;
  symbolic_memory memory_;
  symbolic_channels channels_;
  std::vector<given> given_in_;  // for each cell, in which slice the step sends it
  int stamp_ = 0;
  std::unordered_map<value, bool> has_all_;
  std::vector<symbolic_sizes> sizes_;
  std::vector<walk> walks_;
  std::vector<waits> waits_;
  places given_, kept_, own_;  // of the slice that moves now
  std::vector<value> results_;
};

// Whether `schedule` does what the contract of `what` says, for `s` and under `how`. The answer depends on these alone, so a
// sweep over shapes and circumstances proves a schedule.
//
//   verdict v = verify(schedule<ring, collective::all_reduce>{}, collective::all_reduce, {.ranks = 5});
//   if (!v.ok) std::puts(v.why.c_str());
template <step_function S>
verdict verify(S const& schedule, collective what, shape s, circumstances how = {}) {
  try {
    check_schedule(schedule, what, s);
    if (s.ranks > 1) symbolic_execution<S>(schedule, what, s, how).run();
    return {};
  } catch (flaw& f) {
    return {false, std::move(f.why)};
  }
}

}  // namespace tutti::analyze
