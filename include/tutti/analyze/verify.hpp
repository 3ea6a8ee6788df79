// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves a schedule right for given ranks, by executing it on symbols: every contribution once, in a legal order, the same
// bits everywhere, no access to memory that is not there, no deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/algorithm/concept.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/cursor.hpp"
#include "tutti/analyze/expression.hpp"

namespace tutti::analyze {

struct verdict {
  bool ok = true;
  std::string why;  // where not ok: rank, lane, phase, step, chunk, and what is wrong there, in a sentence

  explicit operator bool() const { return ok; }
};

struct circumstances {
  bool in_place = false;  // what a rank has in its input and in its output is the same memory
  bool direct = false;  // a message that lies in memory is a reference, which the receiver follows when it consumes it
  int slices = 1;       // of a chunk
  int credits = 1;      // the slices that a channel holds before its sender must wait
};

// One execution. All cursors move as far as they can, in turn. That is enough to find every deadlock and every wrong value:
// a rank decides nothing by what arrives first, so whatever the timing, each channel carries the same messages (Kahn, 1974)
// and what could move once can still move later. The one choice that timing has, how far sending runs ahead of receiving
// within a step, is settled by refusing a step that overwrites what it has still to send.
template <step_function S>
class verification {
 public:
  verification(S const& schedule, collective what, shape s, circumstances how)
      : schedule_(schedule),
        what_(what),
        shape_(s),
        how_(how),
        lanes_(schedule.lanes(s)),
        phases_(schedule.phases(s)),
        chunks_(schedule.chunks(s)) {}

  verdict operator()() {
    try {
      inspect();
      if (shape_.ranks > 1) {
        prepare();
        run();
        settle();
      }
      return {};
    } catch (fault& f) {
      return {false, std::move(f.why)};
    }
  }

 private:
  using value = expressions::value;
  static constexpr int nowhere = -1;

  struct fault {
    std::string why;
  };
  struct message {
    value what = expressions::nothing;
    int cell = nowhere;  // where the message is a reference: what it refers to
    int chunk = 0;
    int slice = 0;
  };
  // A half of a step that waits: for whom, and to do what.
  struct wait {
    int rank = nowhere;
    int track = 0;
    std::string (*why)(int rank, std::string const& chunk) = nullptr;
    int chunk = 0;
  };
  struct runner {
    cursor<S> at;
    wait sending{};
    wait receiving{};
  };

  // -- The schedule as a whole, and each step by itself.

  void inspect() const {
    if (shape_.ordered && schedule_.needs_commutative)
      throw fault{"the schedule combines out of rank order (needs_commutative), but the call is ordered"};
    if (lanes_ < 1 || phases_ < 1 || chunks_ < 1) throw fault{"lanes, phases and chunks must be at least 1"};
    if (lanes_ * phases_ > max_tracks)
      throw fault{count(lanes_, "lane") + " of " + count(phases_, "phase") + " are more than max_tracks"};
    if (by_block(what_) && chunks_ != shape_.ranks)
      throw fault{"a chunk must be a rank's block, but there are " + count(chunks_, "chunk") + " for " +
                  count(shape_.ranks, "rank")};
    if (shape_.ranks > 1) return;
    for (int track = 0; track < lanes_ * phases_; ++track)
      if (schedule_.steps(shape_, position_of(0, track)) != 0) throw fault{"one rank alone must have no steps"};
  }

  void inspect(cursor<S> const& c) const {
    step const& t = c.now();
    int const self = c.me().rank;
    auto const require = [&](bool fine, char const* complaint) {
      if (!fine) throw fault{at(c) + complaint};
    };
    require(distinct(t.from) && distinct(t.to), "names a peer twice");
    require(!t.give.split || t.forwards() || t.give.what.count == t.to.count,
            "splits chunks among peers, but not as many");
    require(t.from.empty() || !t.keep.split || t.keep.what.count == t.from.count,
            "splits chunks among peers, but not as many");
    require(!schedule_.pipelined || ((t.from.empty() || t.keep.split || t.keep.what.count == 1) &&
                                     (t.to.empty() || t.give.split || t.give.what.count == 1)),
            "moves several chunks in a message, but the schedule is pipelined");
    require(t.keep.where != space::input, "writes to its input");
    if (t.forwards()) require(!t.from.empty() && !t.keep.split, "passes on a result, but forms none");
    if (t.from.empty()) return;
    require(t.keep.where != space::none || t.forwards(), "neither keeps nor passes on what it receives");
    if (!contains(t.from, self)) return;
    require(t.own.where != space::none, "is among its sources, but contributes nothing");
    require(t.keep.split || t.own.what.count == t.keep.what.count,
            "contributes another number of chunks than it receives");
  }

  bool distinct(peers const& p) const {
    return p.count <= shape_.ranks / std::gcd(shape_.ranks, wrap(p.stride, shape_.ranks));
  }
  bool contains(peers const& p, int rank) const {
    for (int k = 0; k < p.count; ++k)
      if (p.at(k, shape_.ranks) == rank) return true;
    return false;
  }

  // -- Memory. A cell is one slice of one chunk of a space of a rank.

  void prepare() {
    std::size_t const cells = static_cast<std::size_t>(shape_.ranks * 3 * lanes_ * chunks_ * how_.slices);
    memory_.assign(cells, expressions::nothing);
    references_.assign(cells, 0);
    for (int r = 0; r < shape_.ranks; ++r)
      for (int c = 0; c < chunks_; ++c)
        if (has(input_of(what_, shape_, r), r, c))
          for (int lane = 0; lane < lanes_; ++lane)
            for (int slice = 0; slice < how_.slices; ++slice)
              memory_[index(cell(r, space::input, lane, c, slice))] = values_.add({r, lane, c, slice});

    int const tracks = lanes_ * phases_;
    queues_.assign(static_cast<std::size_t>(shape_.ranks * shape_.ranks * tracks), {});
    slots_.resize(queues_.size() * static_cast<std::size_t>(how_.credits));
    for (int r = 0; r < shape_.ranks; ++r)
      for (int track = 0; track < tracks; ++track) {
        runners_.push_back({cursor<S>(schedule_, shape_, position_of(r, track), how_.slices)});
        if (!runners_.back().at.done()) inspect(runners_.back().at);
      }
  }

  // Slices of a pipelined schedule of one phase go through scratch one after the other: it is one slice deep.
  int cell(int rank, space where, int lane, int chunk, int slice) const {
    if (where == space::scratch && schedule_.pipelined && phases_ == 1) slice = 0;
    if (where == space::output && how_.in_place && has(input_of(what_, shape_, rank), rank, chunk))
      where = space::input;
    int const s = static_cast<int>(where) - 1;
    return (((rank * 3 + s) * lanes_ + lane) * chunks_ + chunk) * how_.slices + slice;
  }

  // The cell of unit `of` of a region, checked.
  int cell(cursor<S> const& c, region const& r, unit of, char const* verb) const {
    int const rank = c.me().rank, chunk = r.what.at(of.k, chunks_);
    bool const there = r.where == space::input    ? has(input_of(what_, shape_, rank), rank, chunk)
                       : r.where == space::output ? has(output_of(what_, shape_, rank), rank, chunk)
                                                  : schedule_.scratch;
    if (!there) throw fault{at(c) + verb + " " + name(r.where, chunk) + " that it does not have"};
    return cell(rank, r.where, c.me().lane, chunk, of.slice);
  }

  int readable(cursor<S> const& c, region const& r, unit of) const {
    int const where = cell(c, r, of, "reads");
    if (memory_[index(where)] == expressions::nothing)
      throw fault{at(c) + "reads " + name(r.where, r.what.at(of.k, chunks_)) + ", which nobody wrote"};
    return where;
  }

  // -- Moving.

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (runner& r : runners_)
        while (!r.at.done() && advance(r)) moved = true;
    }
    for (runner const& r : runners_)
      if (!r.at.done()) throw fault{deadlock(r)};
  }

  bool advance(runner& r) {
    bool moved = receive(r);
    moved |= send(r);
    if (r.at.step_done()) {
      r.at.next();
      if (!r.at.done()) inspect(r.at);
      moved = true;
    }
    return moved;
  }

  bool send(runner& r) {
    cursor<S>& c = r.at;
    r.sending = {};
    if (c.sent >= c.sends()) return false;
    unit const u = c.at(c.sent);
    if (!phase_before_finished(c, u, c.sent)) return r.sending = on_phase(c, u), false;
    bool moved = false;
    for (; c.peer_to < c.now().to.count; ++c.peer_to) {
      int const peer = c.now().to.at(c.peer_to, shape_.ranks);
      if (peer == c.me().rank) continue;
      region const& give = c.now().give;
      unit const of{give.split ? c.peer_to : u.k, u.slice};
      int const from = readable(c, give, of), chunk = give.what.at(of.k, chunks_);
      if (full(c, peer)) return r.sending = on_credit(c, peer, chunk), moved;
      push(c, peer, {memory_[index(from)], how_.direct ? from : nowhere, chunk, u.slice});
      moved = true;
    }
    c.peer_to = 0;
    ++c.sent;
    return true;
  }

  bool receive(runner& r) {
    cursor<S>& c = r.at;
    r.receiving = {};
    if (!c.may_receive()) return false;
    unit const u = c.at(c.received);
    if (!phase_before_finished(c, u, c.received)) return r.receiving = on_phase(c, u), false;
    return c.now().keep.split ? receive_split(r, u) : receive_combined(r, u);
  }

  bool receive_split(runner& r, unit u) {
    cursor<S>& c = r.at;
    bool moved = false;
    for (; c.peer_from < c.now().from.count; ++c.peer_from) {
      int const peer = c.now().from.at(c.peer_from, shape_.ranks);
      unit const of{c.peer_from, u.slice};
      if (!arrived(r, peer, of)) return moved;
      if (!stays(c, peer, of, {0, u.slice})) {
        if (!writable(r, of)) return moved;
        keep(c, of, take(c, peer, of, {0, u.slice}));
      }
      moved = true;
    }
    c.peer_from = 0;
    ++c.received;
    return true;
  }

  // In place, the own chunk may be where it belongs: nothing is written, whoever still reads it.
  bool stays(cursor<S> const& c, int peer, unit of, unit own_of) const {
    return peer == c.me().rank && readable(c, c.now().own, own_of) == cell(c, c.now().keep, of, "writes");
  }

  bool receive_combined(runner& r, unit u) {
    cursor<S>& c = r.at;
    step const& t = c.now();
    for (int k = 0; k < t.from.count; ++k)
      if (!arrived(r, t.from.at(k, shape_.ranks), u)) return false;
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k)
        if (int const peer = t.to.at(k, shape_.ranks); peer != c.me().rank && full(c, peer))
          return r.receiving = on_credit(c, peer, t.keep.what.at(u.k, chunks_)), false;
    if (!writable(r, u)) return false;

    value result = expressions::nothing;
    for (int k = 0; k < t.from.count; ++k) {
      value const next = take(c, t.from.at(k, shape_.ranks), u, u);
      if (t.reduces() && values_.finished(next))
        throw fault{at(c) + "combines " + chunk_of(t.keep, u) + ", which is complete already, once more"};
      result = result == expressions::nothing ? next : values_.combine(result, next);
    }
    result = completed(c, u, result);
    keep(c, u, result);
    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k)
        if (int const peer = t.to.at(k, shape_.ranks); peer != c.me().rank)
          push(c, peer,
               {result, how_.direct && t.keep.where != space::none ? cell(c, t.keep, u, "writes") : nowhere,
                t.keep.what.at(u.k, chunks_), u.slice});
    ++c.received;
    return true;
  }

  // `complete` belongs to the step that combines the last contribution, and to no other.
  value completed(cursor<S> const& c, unit u, value v) {
    if (what_ == collective::barrier) return v;
    bool const due = completes(what_) && c.now().reduces() && whole(v);
    if (due && !c.now().complete)
      throw fault{at(c) + "combines the last contribution to " + chunk_of(c.now().keep, u) +
                  " and does not say that it is complete"};
    if (!due && c.now().complete)
      throw fault{at(c) + "says that " + chunk_of(c.now().keep, u) +
                  " is complete where no last contribution is combined"};
    return due ? values_.finish(v) : v;
  }

  // Whether it holds one contribution of each rank.
  bool whole(value v) {
    if (values_.count(v) != shape_.ranks) return false;
    auto const [found, added] = whole_.try_emplace(v, true);
    if (added) {
      std::vector<bool> seen(static_cast<std::size_t>(shape_.ranks));
      for (contribution const& c : values_.flat(v, static_cast<std::size_t>(shape_.ranks))) seen[index(c.rank)] = true;
      for (bool const rank : seen) found->second &= rank;
    }
    return found->second;
  }

  // -- What a unit needs before it can move.

  bool phase_before_finished(cursor<S> const& c, unit of, int u) const {
    return c.me().phase == 0 || runners_[number(c.me().rank, track_of(c) - 1)].at.finished(of, u);
  }

  bool full(cursor<S> const& c, int peer) const { return queue(c.me().rank, peer, track_of(c)).count == how_.credits; }

  bool arrived(runner& r, int peer, unit of) {
    cursor<S> const& c = r.at;
    if (peer == c.me().rank || queue(peer, c.me().rank, track_of(c)).count > 0) return true;
    r.receiving = {
        peer, track_of(c),
        [](int from, std::string const& chunk) { return "waits for " + chunk + " from rank " + std::to_string(from); },
        c.now().keep.what.at(of.k, chunks_)};
    return false;
  }

  // The cell that a unit is kept in must not be on its way to anybody, and must not have to be sent by this very step.
  bool writable(runner& r, unit of) {
    cursor<S> const& c = r.at;
    region const& keep = c.now().keep;
    if (keep.where == space::none) return true;
    int const to = cell(c, keep, of, "writes");
    for (int u = c.received + 1; u < c.sends(); ++u)
      for (int k = 0; k < (c.now().give.split ? c.now().to.count : 1); ++k)
        if (unit const later = c.at(u);
            cell(c, c.now().give, {c.now().give.split ? k : later.k, later.slice}, "reads") == to)
          throw fault{at(c) + "overwrites " + name(keep.where, keep.what.at(of.k, chunks_)) + " before it is sent"};
    if (references_[index(to)] == 0) return true;
    auto const [reader, track] = reader_of(c.me().rank, to);
    r.receiving = {reader, track,
                   [](int by, std::string const& chunk) {
                     return "waits to overwrite " + chunk + ", which rank " + std::to_string(by) + " has still to read";
                   },
                   keep.what.at(of.k, chunks_)};
    return false;
  }

  std::pair<int, int> reader_of(int owner, int where) const {
    for (int peer = 0; peer < shape_.ranks; ++peer)
      for (int track = 0; track < lanes_ * phases_; ++track)
        for (int i = 0; i < queue(owner, peer, track).count; ++i)
          if (slot(owner, peer, track, i).cell == where) return {peer, track};
    return {owner, 0};
  }

  wait on_phase(cursor<S> const& c, unit u) const {
    return {c.me().rank, track_of(c) - 1,
            [](int, std::string const&) -> std::string { return "waits for the phase before"; }, u.k};
  }
  wait on_credit(cursor<S> const& c, int peer, int chunk) const {
    return {peer, track_of(c),
            [](int to, std::string const& what) {
              return "waits for room to send " + what + " to rank " + std::to_string(to);
            },
            chunk};
  }

  // -- Messages.

  struct fifo {
    int first = 0;
    int count = 0;
  };

  void push(cursor<S> const& c, int peer, message m) {
    int const from = c.me().rank, track = track_of(c);
    fifo& q = queue(from, peer, track);
    slot(from, peer, track, q.count++) = m;
    if (m.cell != nowhere) ++references_[index(m.cell)];
  }

  // What source `peer` contributes to unit `of`; for this rank itself that is unit `own_of` of its own region.
  value take(cursor<S> const& c, int peer, unit of, unit own_of) {
    step const& t = c.now();
    int const chunk = t.keep.what.at(of.k, chunks_);
    if (peer == c.me().rank) {
      if (int const own = t.own.what.at(own_of.k, chunks_); own != chunk && !renumbers(what_))
        throw fault{at(c) + "takes its own chunk " + std::to_string(own) + " for chunk " + std::to_string(chunk)};
      return memory_[index(readable(c, t.own, own_of))];
    }
    fifo& q = queue(peer, c.me().rank, track_of(c));
    message const m = slot(peer, c.me().rank, track_of(c), 0);
    q.first = (q.first + 1) % how_.credits;
    --q.count;
    if ((m.chunk != chunk && !renumbers(what_)) || m.slice != of.slice)
      throw fault{at(c) + "expects " + label(chunk, of.slice) + " from rank " + std::to_string(peer) + ", which sent " +
                  label(m.chunk, m.slice)};
    if (m.cell == nowhere) return m.what;
    --references_[index(m.cell)];
    return memory_[index(m.cell)];
  }

  void keep(cursor<S> const& c, unit of, value v) {
    if (c.now().keep.where != space::none) memory_[index(cell(c, c.now().keep, of, "writes"))] = v;
  }

  // -- The end.

  void settle() const {
    for (int from = 0; from < shape_.ranks; ++from)
      for (int to = 0; to < shape_.ranks; ++to)
        for (int track = 0; track < lanes_ * phases_; ++track)
          if (queue(from, to, track).count > 0)
            throw fault{"rank " + std::to_string(from) + ", " + track_name(track) + ": sends " +
                        label(slot(from, to, track, 0).chunk, slot(from, to, track, 0).slice) + " to rank " +
                        std::to_string(to) + ", which never receives it"};
    for (int r = 0; r < shape_.ranks; ++r)
      for (int c = 0; c < chunks_; ++c)
        if (has(output_of(what_, shape_, r), r, c))
          for (int lane = 0; lane < lanes_; ++lane)
            for (int slice = 0; slice < how_.slices; ++slice) settle(r, {r, lane, c, slice});
  }

  void settle(int rank, contribution where) const {
    promise const due = promise_of(what_, shape_, rank, where.chunk);
    if (due.count == 0) return;
    std::string const here = "rank " + std::to_string(rank) + ", lane " + std::to_string(where.lane) + ": output " +
                             label(where.chunk, where.slice);
    value const got = memory_[index(cell(rank, space::output, where.lane, where.chunk, where.slice))];
    if (got == expressions::nothing) throw fault{here + " is never written"};
    if (what_ == collective::all_reduce && rank > 0) {
      value const first = memory_[index(cell(0, space::output, where.lane, where.chunk, where.slice))];
      if (got == first) return;
      check(here, got, due, where);
      throw fault{here + " is combined as " + values_.text(got) + ", but at rank 0 as " + values_.text(first) +
                  ": their bits may differ"};
    }
    check(here, got, due, where);
  }

  void check(std::string const& here, value got, promise due, contribution where) const {
    std::size_t const most = static_cast<std::size_t>(may_repeat(what_) ? shape_.ranks * shape_.ranks : due.count + 1);
    std::vector<contribution> const found = values_.flat(got, most);
    std::vector<int> times(static_cast<std::size_t>(shape_.ranks));
    bool sorted = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      contribution const& f = found[i];
      if (f.chunk != due.chunk || f.lane != where.lane || f.slice != where.slice)
        throw fault{here + " holds " + label(f.chunk, f.slice) + " of rank " + std::to_string(f.rank) + " where " +
                    label(due.chunk, where.slice) + " of " + ranks(due) + " belongs"};
      ++times[index(f.rank)];
      sorted = sorted && f.rank == due.first + static_cast<int>(i);
    }
    for (int r = 0; r < shape_.ranks; ++r) {
      bool const wanted = r >= due.first && r < due.first + due.count;
      int const n = times[index(r)];
      if (wanted ? n == 1 || (n > 1 && may_repeat(what_)) : n == 0) continue;
      throw fault{here + " holds the contribution of rank " + std::to_string(r) + " " +
                  (n == 1 ? "once" : std::to_string(n) + " times") + ", but that of " + ranks(due) +
                  " belongs there once"};
    }
    if (in_rank_order(what_, shape_) && !sorted)
      throw fault{here + " is combined as " + values_.text(got) + ", which is not rank order"};
    if (completes(what_) && !values_.finished(got)) throw fault{here + " holds a value that no step completed"};
  }

  // Follows who waits for whom, from one that waits, until it comes round or to one that has finished.
  std::string deadlock(runner const& stuck) const {
    std::vector<std::size_t> path;
    for (runner const* r = &stuck;;) {
      std::size_t const here = number(r->at.me().rank, track_of(r->at));
      for (std::size_t i = 0; i < path.size(); ++i)
        if (path[i] == here)
          return story("deadlock: ", {path.begin() + static_cast<std::ptrdiff_t>(i), path.end()}, "");
      path.push_back(here);
      wait const& w = waits(*r);
      r = &runners_[number(w.rank, w.track)];
      if (r->at.done()) return story("deadlock: ", {path.back()}, ", which has finished");
    }
  }
  std::string story(std::string text, std::vector<std::size_t> const& path, char const* end) const {
    static constexpr std::size_t enough = 6;
    for (std::size_t i = 0; i < path.size() && i < enough; ++i) {
      wait const& w = waits(runners_[path[i]]);
      text += (i > 0 ? "; " : "") + at(runners_[path[i]].at) + w.why(w.rank, "chunk " + std::to_string(w.chunk));
    }
    if (path.size() > enough) text += "; and so on, " + std::to_string(path.size()) + " that wait in a circle";
    return text + end;
  }
  static wait const& waits(runner const& r) { return r.receiving.why != nullptr ? r.receiving : r.sending; }

  // -- Names and numbers.

  static std::string count(int n, char const* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }
  static std::string name(space where, int chunk) {
    static constexpr char const* names[] = {"no", "input", "output", "scratch"};
    return std::string(names[static_cast<int>(where)]) + " chunk " + std::to_string(chunk);
  }
  std::string label(int chunk, int slice) const {
    return "chunk " + std::to_string(chunk) + (how_.slices > 1 ? " (slice " + std::to_string(slice) + ")" : "");
  }
  std::string chunk_of(region const& r, unit u) const { return "chunk " + std::to_string(r.what.at(u.k, chunks_)); }
  static std::string ranks(promise p) {
    if (p.count == 1) return "rank " + std::to_string(p.first);
    return "each of ranks " + std::to_string(p.first) + " to " + std::to_string(p.first + p.count - 1);
  }
  std::string track_name(int track) const {
    return "lane " + std::to_string(track / phases_) + ", phase " + std::to_string(track % phases_);
  }
  std::string at(cursor<S> const& c) const {
    return "rank " + std::to_string(c.me().rank) + ", " + track_name(track_of(c)) + ", step " +
           std::to_string(c.index()) + ": ";
  }

  position position_of(int rank, int track) const { return {rank, track / phases_, track % phases_}; }
  int track_of(cursor<S> const& c) const { return c.me().lane * phases_ + c.me().phase; }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::size_t number(int rank, int track) const { return index(rank * lanes_ * phases_ + track); }
  std::size_t channel(int from, int to, int track) const {
    return index((from * shape_.ranks + to) * lanes_ * phases_ + track);
  }
  fifo& queue(int from, int to, int track) { return queues_[channel(from, to, track)]; }
  fifo const& queue(int from, int to, int track) const { return queues_[channel(from, to, track)]; }
  std::size_t place(int from, int to, int track, int i) const {
    std::size_t const c = channel(from, to, track);
    return c * index(how_.credits) + index((queues_[c].first + i) % how_.credits);
  }
  message& slot(int from, int to, int track, int i) { return slots_[place(from, to, track, i)]; }
  message const& slot(int from, int to, int track, int i) const { return slots_[place(from, to, track, i)]; }

  S schedule_;
  collective what_;
  shape shape_;
  circumstances how_;
  int lanes_, phases_, chunks_;
  expressions values_;
  std::unordered_map<value, bool> whole_;
  std::vector<value> memory_;
  std::vector<int> references_;
  std::vector<fifo> queues_;
  std::vector<message> slots_;
  std::vector<runner> runners_;
};

// Whether `schedule` does what the contract of `what` says, for `s` and under `how`. What follows from the answer alone
// depends on the shape and on `how`, so a sweep over them is what proves a schedule.
//
//   verdict v = verify(schedule<ring, collective::all_reduce>{}, collective::all_reduce, {.ranks = 5});
//   if (!v.ok) std::puts(v.why.c_str());
template <step_function S>
verdict verify(S const& schedule, collective what, shape s, circumstances how = {}) {
  return verification<S>(schedule, what, s, how)();
}

}  // namespace tutti::analyze
