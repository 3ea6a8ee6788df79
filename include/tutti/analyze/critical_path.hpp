// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The longest chain of a schedule's messages, quickly and in whole numbers: for choosing while a program runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/algorithm/dynamic.hpp"

namespace tutti::analyze {

// Messages that wait for each other; messages through one port; and bytes sent and combined, in chunks. What goes from node
// to node is far, and counted apart; of messages, near and far ones together.
struct effort {
  std::uint64_t hops = 0, messages = 0, sent = 0, combined = 0, far_hops = 0, far_sent = 0;
};
// In a row, where nothing else takes time, and what the busiest rank does at least.
struct efforts {
  effort longest, busiest;
};

// Ranks on nodes that have as many each, side by side or dealt out in turn. All that a node sends far goes through one port,
// and all that it receives through another: `longest` is no less than what these carry.
struct even_nodes {
  int count = 1;
  bool consecutive = true;

  constexpr int node_of(int rank, int ranks) const { return consecutive ? rank / (ranks / count) : rank % count; }
};

// What simulate.hpp says of one slice or two, without its events, observers and symmetries, which would add a second to the
// compilation of every program; and ranks that were compiled differently come to the same numbers. Lanes have ports of their
// own: where they meet, `longest` is too little.
class critical_path {
 public:
  critical_path(dynamic_schedule const& schedule, shape s, int slices, even_nodes nodes = {})
      : schedule_(schedule),
        shape_(s),
        nodes_(nodes),
        slices_(slices),
        lanes_(schedule.lanes(s)),
        phases_(schedule.phases(s)),
        tracks_(lanes_ * phases_) {}

  efforts operator()() {
    efforts out;
    auto const find = [&](std::uint64_t effort::* member, prices const& p) {
      out.longest.*member = run(p);
      for (std::uint64_t const c : carried_) out.longest.*member = std::max(out.longest.*member, c);
      for (std::uint64_t const b : busy_) out.busiest.*member = std::max(out.busiest.*member, b);
      for (std::uint64_t const c : carried_) out.busiest.*member = std::max(out.busiest.*member, c);
    };
    find(&effort::hops, {.hop = 1});
    find(&effort::messages, {.message = 1});
    find(&effort::sent, {.byte = 1});
    find(&effort::combined, {.combined = 1});
    if (nodes_.count == 1) return out;
    find(&effort::far_hops, {.far_hop = 1});
    find(&effort::far_sent, {.far_byte = 1});
    return out;
  }

 private:
  struct prices {
    std::uint64_t hop = 0, message = 0, byte = 0, combined = 0, far_hop = 0, far_byte = 0;
  };
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
  struct runner {
    position me{};
    int steps = 0, index = 0;  // of all slices
    bool sent = false;
    std::uint64_t time = 0, sending = 0;
    std::vector<std::uint64_t> ended{};  // when it had done with a slice
  };

  std::uint64_t run(prices const& p) {
    prices_ = p;
    runners_.clear();
    for (int rank = 0; rank < shape_.ranks; ++rank)
      for (int track = 0; track < tracks_; ++track) {
        position const me{rank, track / phases_, track % phases_};
        runners_.push_back({.me = me, .steps = schedule_.steps(shape_, me)});
      }
    auto const ranks = static_cast<std::size_t>(shape_.ranks);
    channels_.assign(ranks * ranks * static_cast<std::size_t>(tracks_), {});
    ports_.assign(ranks * static_cast<std::size_t>(lanes_), {});
    carried_.assign(2 * static_cast<std::size_t>(nodes_.count), 0);
    busy_.assign(ranks, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < runners_.size(); ++i) moved |= advance(i);
    }
    std::uint64_t out = 0;
    for (runner const& r : runners_) out = std::max(out, r.time);
    return out;
  }

  // Goes on until a message is missing, or the phase before.
  bool advance(std::size_t i) {
    runner& r = runners_[i];
    for (bool moved = false;; moved = true) {
      if (r.index == r.steps * slices_) return moved;
      auto const slice = static_cast<std::size_t>(r.index / r.steps);
      step const now = schedule_.at(shape_, r.me, r.index % r.steps);
      if (!r.sent) {
        if (r.me.phase > 0 && runners_[i - 1].steps > 0) {
          if (runners_[i - 1].ended.size() <= slice) return moved;
          r.time = std::max(r.time, runners_[i - 1].ended[slice]);
        }
        r.sending = now.to.empty() || now.forwards() ? r.time : transmit(r, now, now.give, r.time);
        r.sent = moved = true;
      }
      std::uint64_t received = r.time;
      if (!now.from.empty()) {
        if (!all_here(r, now)) return moved;
        received = std::max(r.time, receive(r, now));
        if (now.forwards()) transmit(r, now, now.keep, received);
      }
      r.time = std::max(r.sending, received);
      r.sent = false;
      if (++r.index % r.steps == 0) r.ended.push_back(r.time);
    }
  }

  std::uint64_t transmit(runner const& r, step const& now, region const& give, std::uint64_t time) {
    port& mine = ports_[static_cast<std::size_t>(r.me.rank * lanes_ + r.me.lane)];
    for (int k = 0; k < now.to.count; ++k) {
      int const peer = now.to.at(k, shape_.ranks);
      if (peer == r.me.rank) continue;
      bool const far = is_far(r.me.rank, peer);
      std::uint64_t const start = std::max(time, mine.out);
      std::uint64_t const busy = prices_.message + chunks(give) * (far ? prices_.far_byte : prices_.byte);
      mine.out = start + busy;
      busy_[static_cast<std::size_t>(r.me.rank)] += busy;
      if (far) {
        carried_[node_of(r.me.rank) * 2] += chunks(give) * prices_.far_byte;
        carried_[node_of(peer) * 2 + 1] += chunks(give) * prices_.far_byte;
      }
      between(r.me.rank, peer, r.me).heads.push_back(start + (far ? prices_.far_hop : prices_.hop));
    }
    return std::max(time, mine.out);
  }
  bool all_here(runner const& r, step const& now) {
    for (int k = 0; k < now.from.count; ++k) {
      int const peer = now.from.at(k, shape_.ranks);
      if (peer == r.me.rank) continue;
      channel const& c = between(peer, r.me.rank, r.me);
      if (c.taken == c.heads.size()) return false;
    }
    return true;
  }
  // The port takes messages in the order of their arrival.
  std::uint64_t receive(runner const& r, step const& now) {
    heads_.clear();
    for (int k = 0; k < now.from.count; ++k) {
      int const peer = now.from.at(k, shape_.ranks);
      if (peer == r.me.rank) continue;
      channel& c = between(peer, r.me.rank, r.me);
      head const next{c.heads[c.taken++], is_far(peer, r.me.rank)};
      auto at = heads_.end();
      while (at != heads_.begin() && (at - 1)->time > next.time) --at;
      heads_.insert(at, next);
    }
    port& mine = ports_[static_cast<std::size_t>(r.me.rank * lanes_ + r.me.lane)];
    std::uint64_t done = r.time;
    for (head const& h : heads_) {
      std::uint64_t const busy = chunks(now.keep) * (h.far ? prices_.far_byte : prices_.byte);
      mine.in = done = std::max(mine.in, h.time) + busy;
    }
    done = std::max(done, r.time);
    if (!now.reduces()) return done;
    std::uint64_t const work = static_cast<std::uint64_t>(now.from.count - 1) * chunks(now.keep) * prices_.combined;
    busy_[static_cast<std::size_t>(r.me.rank)] += work;
    return done + work;
  }

  std::size_t node_of(int rank) const { return static_cast<std::size_t>(nodes_.node_of(rank, shape_.ranks)); }
  bool is_far(int a, int b) const { return node_of(a) != node_of(b); }

  static std::uint64_t chunks(region const& r) { return r.split ? 1 : static_cast<std::uint64_t>(r.what.count); }
  channel& between(int from, int to, position me) {
    return channels_[static_cast<std::size_t>((from * shape_.ranks + to) * tracks_ + me.lane * phases_ + me.phase)];
  }

  dynamic_schedule schedule_;
  shape shape_;
  even_nodes nodes_;
  int slices_, lanes_, phases_, tracks_;
  prices prices_{};
  std::vector<runner> runners_{};
  std::vector<channel> channels_{};
  std::vector<port> ports_{};
  std::vector<std::uint64_t> busy_{};     // of each rank, what it sends and combines
  std::vector<std::uint64_t> carried_{};  // of each node, what it sends far, and what it receives
  std::vector<head> heads_{};
};

}  // namespace tutti::analyze
