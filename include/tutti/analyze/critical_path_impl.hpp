// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of analyze/critical_path.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/critical_path.hpp"
#include "tutti/analyze/sizes.hpp"

namespace tutti::analyze {

class message_chains {
 public:
  [[gnu::cold]] message_chains(dynamic_schedule const& schedule, shape s, int slices, node_sizes nodes)
      : schedule_(schedule),
        shape_(s),
        nodes_(nodes),
        lanes_(schedule.lanes(s)),
        phases_(schedule.phases(s)),
        tracks_(lanes_ * phases_),
        sizes_{static_cast<std::size_t>(slices)},
        clocks_(static_cast<std::size_t>(s.ranks * tracks_)),
        channels_(static_cast<std::size_t>(s.ranks * s.ranks * tracks_)),
        ports_(static_cast<std::size_t>(s.ranks * lanes_)),
        busy_(static_cast<std::size_t>(s.ranks)),
        carried_(static_cast<std::size_t>(2 * nodes.count)) {}

  message_chains(message_chains const&) = delete;
  message_chains& operator=(message_chains const&) = delete;
  [[gnu::cold]] ~message_chains() = default;

  [[gnu::cold]] efforts measure() {
    efforts out;
    for (auto const kind : {&effort::hops, &effort::messages, &effort::sent, &effort::combined, &effort::far_hops,
                            &effort::far_sent, &effort::far_messages}) {
      prices_ = {};
      prices_.*kind = 1;
      run();
      for (clock const& c : clocks_) out.longest.*kind = std::max(out.longest.*kind, c.time);
      for (std::uint64_t const b : busy_) out.busiest.*kind = std::max(out.busiest.*kind, b);
      for (std::uint64_t const c : carried_) {
        out.longest.*kind = std::max(out.longest.*kind, c);
        out.busiest.*kind = std::max(out.busiest.*kind, c);
      }
      if (nodes_.count == 1 && kind == &effort::combined) break;  // nothing is far
    }
    return out;
  }

 private:
  struct channel {
    std::vector<std::uint64_t> heads{};  // when a message's first byte arrives
    std::size_t taken = 0;
  };
  struct port {
    std::uint64_t out = 0, in = 0;  // when it is free again
  };
  struct head {
    std::uint64_t time;
    bool far;
  };
  // The clocks of a cursor.
  struct clock {
    bool begun = false;  // the step
    std::uint64_t time = 0, sending = 0;
    std::vector<std::uint64_t> ended{};  // when it had finished a slice
  };
  using walk = tutti::detail::walk<dynamic_schedule, even_chunks>;
  using cursor = tutti::detail::cursor;

  void run() {
    std::size_t const slice = sizes_.elements > 1 ? 1 : uncut;
    walks_.clear();
    for (int rank = 0; rank < shape_.ranks; ++rank) walks_.emplace_back(schedule_, shape_, rank, sizes_, slice, false);
    for (clock& c : clocks_) c.time = 0, c.ended.clear();
    for (channel& c : channels_) c.heads.clear(), c.taken = 0;
    for (port& p : ports_) p = {};
    for (std::uint64_t& b : busy_) b = 0;
    for (std::uint64_t& c : carried_) c = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (walk& w : walks_)
        for (int track = 0; track < tracks_; ++track)
          while (!w[track].finished && advance(w, track)) moved = true;
    }
  }

  // One step, which has a single slice; false if a message or the phase before is missing.
  bool advance(walk& w, int track) {
    cursor& c = w[track];
    clock& k = clock_of(c.me);
    if (!k.begun) {
      if (w.available(track) <= c.turn) return false;
      if (c.me.phase > 0)
        if (auto const& before = (&k - 1)->ended; !before.empty()) k.time = std::max(k.time, before[c.turn]);
      k.sending = k.time;
      for (; c.sent < c.end; c.sent_to_one()) k.sending = transmit(w, c, c.now.give, c.sending, k.time);
      k.begun = true;
    }
    std::uint64_t received = k.time;
    if (!c.now.from.empty()) {
      if (!all_here(w, c)) return false;
      received = std::max(k.time, receive(w, c, k.time));
      if (c.now.forwards())
        for (int i = 0; i < c.now.to.count; ++i) transmit(w, c, c.now.keep, i, received);
      c.received_from_all();
    }
    k.time = std::max(k.sending, received);
    k.begun = false;
    w.leave(c);
    if (c.finished || c.index == 0) k.ended.push_back(k.time);
    return true;
  }

  // To peer k.
  std::uint64_t transmit(walk const& w, cursor const& c, region const& r, int k, std::uint64_t time) {
    int const peer = w.peer(c.now.to, k), rank = c.me.rank;
    port& mine = port_of(c.me);
    if (peer == rank) return std::max(time, mine.out);
    bool const far = is_far(rank, peer);
    std::uint64_t const start = std::max(time, mine.out), length = length_of(w, c, r);
    std::uint64_t const busy =
        prices_.messages + (far ? prices_.far_messages : 0) + length * (far ? prices_.far_sent : prices_.sent);
    mine.out = start + busy;
    busy_[static_cast<std::size_t>(rank)] += busy;
    if (far) {
      carried_[node_of(rank) * 2] += length * prices_.far_sent;
      carried_[node_of(peer) * 2 + 1] += length * prices_.far_sent;
    }
    between(rank, peer, c.me).heads.push_back(start + (far ? prices_.far_hops : prices_.hops));
    return mine.out;
  }
  bool all_here(walk const& w, cursor const& c) {
    for (int k = 0; k < c.now.from.count; ++k) {
      int const peer = w.peer(c.now.from, k);
      if (peer == c.me.rank) continue;
      channel const& from = between(peer, c.me.rank, c.me);
      if (from.taken == from.heads.size()) return false;
    }
    return true;
  }
  // The port receives messages in the order of their arrival.
  std::uint64_t receive(walk const& w, cursor const& c, std::uint64_t time) {
    heads_.clear();
    for (int k = 0; k < c.now.from.count; ++k) {
      int const peer = w.peer(c.now.from, k);
      if (peer == c.me.rank) continue;
      channel& from = between(peer, c.me.rank, c.me);
      head const next{from.heads[from.taken++], is_far(peer, c.me.rank)};
      heads_.push_back(next);
      for (auto at = heads_.end() - 1; at != heads_.begin() && (at - 1)->time > at->time; --at) std::swap(at[-1], *at);
    }
    std::uint64_t const length = length_of(w, c, c.now.keep);
    port& mine = port_of(c.me);
    std::uint64_t done = time;
    for (head const& h : heads_)
      mine.in = done = std::max(mine.in, h.time) + length * (h.far ? prices_.far_sent : prices_.sent);
    done = std::max(done, time);
    if (!c.now.reduces()) return done;
    std::uint64_t const work = static_cast<std::uint64_t>(c.now.from.count - 1) * length * prices_.combined;
    busy_[static_cast<std::size_t>(c.me.rank)] += work;
    return done + work;
  }

  // The length of the slice that the cursor is at; chunks that are not cut have length 1.
  static std::uint64_t length_of(walk const& w, cursor const& c, region const& r) {
    return w.slice(c.me.lane, r, 0, c.turn).range.count;
  }

  std::size_t node_of(int rank) const { return static_cast<std::size_t>(nodes_.node_of(rank, shape_.ranks)); }
  bool is_far(int a, int b) const { return node_of(a) != node_of(b); }

  clock& clock_of(position me) {
    return clocks_[static_cast<std::size_t>(me.rank * tracks_ + me.lane * phases_ + me.phase)];
  }
  port& port_of(position me) { return ports_[static_cast<std::size_t>(me.rank * lanes_ + me.lane)]; }
  channel& between(int from, int to, position me) {
    return channels_[static_cast<std::size_t>((from * shape_.ranks + to) * tracks_ + me.lane * phases_ + me.phase)];
  }

  dynamic_schedule schedule_;
  shape shape_;
  node_sizes nodes_;
  int lanes_, phases_, tracks_;
  even_chunks sizes_;
  effort prices_{};  // of one unit of each kind of work
  std::vector<walk> walks_{};
  std::vector<clock> clocks_;
  std::vector<channel> channels_;
  std::vector<port> ports_;
  std::vector<std::uint64_t> busy_;     // of each rank: the work that it sends and combines
  std::vector<std::uint64_t> carried_;  // of each node: the far work that it sends and that it receives
  std::vector<head> heads_{};
};

TUTTI_INLINE efforts critical_path(dynamic_schedule const& schedule, shape s, int slices, node_sizes nodes) {
  return message_chains(schedule, s, slices, nodes).measure();
}

}  // namespace tutti::analyze
