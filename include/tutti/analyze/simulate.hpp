// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates the times of a schedule, without memory or values, for tens of thousands of ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/algorithm/cursor.hpp"
#include "tutti/analyze/machine_model.hpp"
#include "tutti/analyze/simulation_results.hpp"
#include "tutti/analyze/sizes.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symmetry.hpp"
#include "tutti/core/error.hpp"

namespace tutti::analyze {

// A larger simulation throws. One of this size takes about a minute.
inline constexpr double max_messages = 2e8;

// If all ranks do the same to their neighbours, their clocks are the same, and one rank's clock stands for all: the
// data that it sends d ranks up equal those that it receives from d ranks down. With nodes, one node stands for all.
// Channels are therefore named by a sender's number within the period and the distance to the receiver; without such a
// symmetry the period is all ranks.
template <step_function S>
class simulation {
 public:
  simulation(S const& schedule, shape s, workload work, model const& m, observer const* watch)
      : schedule_(schedule),
        shape_(s),
        model_(m),
        watch_(watch),
        phases_(schedule.phases(s)),
        tracks_(schedule.lanes(s) * schedule.phases(s)),
        period_(watch ? s.ranks : period()),
        links_(m, period_) {
    double const chunk = work.bytes / schedule.lanes(s) / schedule.chunks(s);
    sizes_.elements = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(chunk)));
    element_bytes_ = chunk / static_cast<double>(sizes_.elements);
    if (work.slice_bytes > 0 && element_bytes_ > 0)
      slice_ = std::max<std::size_t>(1, static_cast<std::size_t>(work.slice_bytes / element_bytes_));
  }

  outcome operator()() {
    if (shape_.ranks == 1) return {.seconds = 0, .messages = 0, .simulated = 1};
    refuse_if_too_long();
    walks_.reserve(static_cast<std::size_t>(period_));
    for (int rank = 0; rank < period_; ++rank) walks_.emplace_back(schedule_, shape_, rank, sizes_, slice_, false);
    runners_.resize(static_cast<std::size_t>(period_ * tracks_));
    for (std::size_t i = 0; i < runners_.size(); ++i) enter(i, 0);
    while (!events_.empty()) {
      event const e = events_.top();
      events_.pop();
      now_ = e.time;
      if (e.what == half::sending) send(e.runner);
      else if (e.what == half::receiving) receive(e.runner);
      else kept(e.runner);
    }
    for (std::size_t i = 0; i < runners_.size(); ++i)
      if (!cursor_of(i).finished)
        throw error({.code = error_code::bad_argument,
                     .what = "the simulated ranks wait for each other",
                     .way_out = "call tutti::analyze::verify, which says how they wait for each other"});
    int const copies = shape_.ranks / period_;
    return {.seconds = end_, .messages = messages_ * copies, .simulated = period_};
  }

 private:
  using walk = tutti::detail::walk<S, even_chunks>;
  using cursor = tutti::detail::cursor;
  using message_slice = tutti::detail::message_slice;

  enum class half : std::uint8_t { sending, receiving, kept };
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  struct event {
    double time;
    std::uint64_t order;  // events at the same time happen in the order in which they were planned
    std::size_t runner;
    half what;
    friend bool operator>(event const& a, event const& b) {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  struct arrival {
    double head;  // arrival of the first byte
    double sent;
    double bytes;
    int chunk;
  };
  struct channel {
    std::vector<arrival> queue;
    std::size_t next = 0;
    std::size_t waiter = nobody;
  };
  // The clocks of a cursor.
  struct runner {
    double began = 0, sending = 0, receiving = 0;  // of the step and of its halves
    int source = 0;
    std::vector<std::pair<arrival, int>> collected{};  // received for this slice, with the sender
    bool busy = false;                                 // a slice is being received
    bool gated = false;
  };

  int period() const {
    int out = 1;
    for (enclosure const& e : model_.enclosures) {
      if (e.ranks % out != 0) return shape_.ranks;
      out = e.ranks;
    }
    return repeats(schedule_, shape_, out) ? out : shape_.ranks;
  }

  void refuse_if_too_long() const {
    double messages = 0;  // of long schedules, only a sample is simulated
    for (int i = 0; i < period_ * tracks_; ++i) {
      position const me{i / tracks_, i % tracks_ / phases_, i % phases_};
      int const steps = schedule_.steps(shape_, me), stride = steps > 64 ? steps / 16 : 1;
      for (int k = 0; k < steps; k += stride) {
        step const t = schedule_.at(shape_, me, k);
        std::size_t const length = sizes_.count(me.lane, t.forwards() ? t.keep : t.give, 0);
        messages += 1.0 * t.to.count * stride * static_cast<double>(detail::slices(length, slice_));
      }
      if (messages <= max_messages) continue;
      throw error({.code = error_code::bad_argument,
                   .what = "a simulation of more than " + std::to_string(static_cast<long>(max_messages)) + " messages",
                   .way_out = "use fewer ranks or larger slices, or an algorithm with fewer messages"});
    }
  }

  void plan(double time, std::size_t i, half what) { events_.push({time, planned_++, i, what}); }

  // Begins a step, passing over steps with nothing to do.
  void enter(std::size_t i, double time) {
    runner& r = runners_[i];
    cursor& c = cursor_of(i);
    while (!c.finished && c.step_done()) walk_of(i).leave(c);
    r.began = r.sending = r.receiving = time;
    if (c.finished) end_ = std::max(end_, time);
    else plan(time, i, half::sending), plan(time, i, half::receiving);
  }

  // A slice is done: the step may be done, and the next phase may continue.
  void leave(std::size_t i) {
    runner& r = runners_[i];
    cursor& c = cursor_of(i);
    if (c.step_done()) {
      double const time = std::max(r.sending, r.receiving);
      if (watch_) watch_->on_step({c.me, c.index, r.began, time, c.now});
      walk_of(i).leave(c);
      enter(i, time);
    }
    if (i + 1 < runners_.size() && runners_[i + 1].gated) {
      runners_[i + 1].gated = false;
      double const time = std::max(now_, c.finished ? std::max(r.sending, r.receiving) : now_);
      plan(time, i + 1, half::sending), plan(time, i + 1, half::receiving);
    }
  }

  std::size_t available(std::size_t i) const { return walk_of(i).available(static_cast<int>(i) % tracks_); }

  void send(std::size_t i) {
    runner& r = runners_[i];
    cursor& c = cursor_of(i);
    if (c.finished || c.sent == c.end || now_ < r.sending) return;
    if (!c.may_send(available(i))) {
      r.gated = true;
      return;
    }
    region const& give = c.now.give;
    for (std::size_t const slice = c.sent; c.sent == slice; c.sent_to_one())
      r.sending =
          std::max(r.sending, transmit(i, give, c.sending, walk_of(i).slice(c.me.lane, give, c.sending, slice)));
    if (c.sent < c.end) plan(r.sending, i, half::sending);
    if (c.may_receive(c.end)) plan(now_, i, half::receiving);
    leave(i);
  }

  // Sends a slice to peer k and returns when the port has accepted all of it.
  double transmit(std::size_t i, region const& r, int k, message_slice const& part) {
    cursor const& c = cursor_of(i);
    int const rank = c.me.rank, peer = walk_of(i).peer(c.now.to, k);
    if (peer == rank || part.range.count == 0) return now_;
    double const bytes = bytes_of(part), start = links_.send(rank, peer, bytes, now_);
    channel& to = channels_[key(rank, peer, c.me)];
    if (to.next == to.queue.size()) to.queue.clear(), to.next = 0;
    to.queue.push_back(
        {start + links_.alpha(rank, peer), start, bytes, r.what.at(r.split ? k : 0, schedule_.chunks(shape_))});
    messages_ += 1;
    if (to.waiter != nobody)
      plan(std::max(now_, to.queue.back().head), std::exchange(to.waiter, nobody), half::receiving);
    return links_.free_to_send(rank);
  }

  void receive(std::size_t i) {
    runner& r = runners_[i];
    cursor& c = cursor_of(i);
    if (c.finished || r.busy || !c.may_receive(c.end) || now_ < r.receiving) return;
    if (!c.may_receive(available(i))) {
      r.gated = true;
      return;
    }
    for (; r.source < c.now.from.count; ++r.source) {
      int const peer = walk_of(i).peer(c.now.from, r.source), rank = c.me.rank;
      if (peer == rank || kept_slice(i, r.source).range.count == 0) continue;
      channel& from = channels_[key(peer, rank, c.me)];
      if (from.next == from.queue.size()) {
        from.waiter = i;
        return;
      }
      r.collected.push_back({from.queue[from.next++], peer});
    }
    double ready = now_;
    for (auto const& [a, peer] : r.collected) ready = std::max(ready, a.head);
    if (ready > now_) return plan(ready, i, half::receiving);

    // The port receives messages in the order of their arrival, whatever the order in which they are combined.
    if (r.collected.size() > 1)
      std::sort(r.collected.begin(), r.collected.end(),
                [](auto const& a, auto const& b) { return a.first.head < b.first.head; });
    double done = now_;
    for (auto const& [a, peer] : r.collected) {
      done = links_.receive(peer, c.me.rank, a.bytes, a.head);
      if (watch_) watch_->on_message({peer, c.me.rank, c.me.lane, a.chunk, a.sent, done});
    }
    done = std::max(done, now_);
    if (c.now.reduces()) done += (c.now.from.count - 1) * bytes_of(kept_slice(i, 0)) * model_.gamma;
    r.receiving = done;
    r.busy = true;
    plan(done, i, half::kept);
  }

  void kept(std::size_t i) {
    runner& r = runners_[i];
    cursor& c = cursor_of(i);
    r.busy = false;
    r.source = 0;
    r.collected.clear();
    if (c.now.forwards())
      for (int k = 0; k < c.now.to.count; ++k) transmit(i, c.now.keep, k, kept_slice(i, 0));
    c.received_from_all();
    if (!c.step_done() && c.may_receive(c.end)) plan(now_, i, half::receiving);
    leave(i);
  }

  message_slice kept_slice(std::size_t i, int k) const {
    cursor const& c = cursor_of(i);
    return walk_of(i).slice(c.me.lane, c.now.keep, k, c.received);
  }
  double bytes_of(message_slice const& part) const { return static_cast<double>(part.range.count) * element_bytes_; }

  walk& walk_of(std::size_t i) { return walks_[i / static_cast<std::size_t>(tracks_)]; }
  walk const& walk_of(std::size_t i) const { return walks_[i / static_cast<std::size_t>(tracks_)]; }
  cursor& cursor_of(std::size_t i) { return walk_of(i)[static_cast<int>(i) % tracks_]; }
  cursor const& cursor_of(std::size_t i) const { return walk_of(i)[static_cast<int>(i) % tracks_]; }

  std::uint64_t key(int from, int to, position me) const {
    std::uint64_t const distance = static_cast<std::uint64_t>(wrap(to - from, shape_.ranks));
    std::uint64_t const sender = static_cast<std::uint64_t>(from % period_),
                        p = static_cast<std::uint64_t>(shape_.ranks);
    return (sender * p + distance) * max_tracks + static_cast<std::uint64_t>(me.lane * phases_ + me.phase);
  }

  S schedule_;
  shape shape_;
  model model_;
  observer const* watch_;
  int phases_, tracks_, period_;
  even_chunks sizes_{};  // of about a byte an element
  double element_bytes_ = 0;
  std::size_t slice_ = uncut;
  double now_ = 0, end_ = 0, messages_ = 0;
  std::uint64_t planned_ = 0;
  std::vector<walk> walks_;
  std::vector<runner> runners_;  // a track of a rank each
  links links_;
  std::unordered_map<std::uint64_t, channel> channels_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
};

// The time of `schedule`. Throws tutti::error if it has more than max_messages messages, or if a rank would wait for ever. `watch` is
// called for the steps and messages of all ranks, so all ranks are then simulated, even if one could stand for many.
template <step_function S>
outcome simulate(S const& schedule, shape s, workload work, model const& m = {}, observer const* watch = nullptr) {
  if (std::string const wrong = complaint_about_counts(schedule, s); !wrong.empty())
    throw error({.code = error_code::bad_argument,
                 .what = "a wrong schedule cannot be simulated: " + wrong,
                 .way_out = "correct the schedule; tutti::analyze::verify finds all that is wrong with it"});
  return simulation<S>(schedule, s, work, m, watch)();
}

}  // namespace tutti::analyze
