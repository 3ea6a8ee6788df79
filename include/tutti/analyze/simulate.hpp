// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule on clocks alone: tens of thousands of ranks, no memory and no values, the same step functions that run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/algorithm/concept.hpp"
#include "tutti/analyze/cursor.hpp"
#include "tutti/core/error.hpp"

namespace tutti::analyze {

// What a machine takes, in seconds. A message of n bytes arrives alpha + n * beta after it is sent (Hockney, 1994); n bytes
// are combined in n * gamma. A rank sends one message at a time and receives one at a time, both together.
struct model {
  double alpha = 1e-6;
  double beta = 1e-10;      // a byte
  double gamma = 5e-11;     // a byte combined with another
  double gap = 0;           // what a message keeps a port busy beside its bytes (LogGP's g)
  int ranks_per_node = 0;   // 0: all ranks are equally far apart
  double alpha_inside = 0;  // alpha between ranks of one node
};

struct workload {
  double bytes = 0;        // of the message; where chunks are blocks, of all ranks' blocks together
  double slice_bytes = 0;  // at most so many bytes a slice; 0: a chunk is one slice
};

struct outcome {
  double seconds = 0;   // until the last rank has finished
  double messages = 0;  // of all ranks, a slice each
  int simulated = 0;    // how many ranks stood for all
};

// What happened, for a picture: a rank's step, and a message on its way. Times in seconds.
struct step_event {
  position who{};
  int index = 0;
  double begin = 0, end = 0;
};
struct message_event {
  int from = 0, to = 0;
  int lane = 0, chunk = 0;
  double sent = 0, arrived = 0;
};
struct observer {
  std::function<void(step_event const&)> on_step;
  std::function<void(message_event const&)> on_message;
};

// The largest simulation that is run: about a minute.
inline constexpr double most_messages = 2e8;

// Whether rank r + period does what rank r does, with peers shifted by as much. Checked for all steps of the first and the
// last period and a few between, which no schedule that depends on a rank's place in the whole survives.
template <step_function S>
bool repeats(S const& schedule, shape s, int period) {
  auto const same = [&](peers a, int rank, peers b, int other) {
    if (a.count != b.count) return false;
    if (a.count == 0 || (a.count == s.ranks && a.stride == b.stride && a.stride == 1))
      return true;  // all, in whatever order
    return wrap(a.first - rank, s.ranks) == wrap(b.first - other, s.ranks) &&
           (a.count == 1 || wrap(a.stride, s.ranks) == wrap(b.stride, s.ranks));
  };
  int const periods = s.ranks / period;
  if (s.ranks % period != 0) return false;
  for (int const sample : {1, 2, 3, periods / 3, periods / 2, periods - 2, periods - 1}) {
    if (sample < 1 || sample >= periods) continue;
    for (int rank = 0; rank < period; ++rank)
      for (int track = 0; track < schedule.lanes(s) * schedule.phases(s); ++track) {
        position const me{rank, track / schedule.phases(s), track % schedule.phases(s)};
        position const other{rank + sample * period, me.lane, me.phase};
        int const steps = schedule.steps(s, me);
        if (steps != schedule.steps(s, other)) return false;
        for (int i = 0; i < steps; ++i) {
          step const a = schedule.at(s, me, i), b = schedule.at(s, other, i);
          if (!same(a.from, me.rank, b.from, other.rank) || !same(a.to, me.rank, b.to, other.rank) ||
              a.forwards() != b.forwards() || a.keep.what.count != b.keep.what.count || a.keep.split != b.keep.split ||
              a.give.what.count != b.give.what.count || a.give.split != b.give.split)
            return false;
        }
      }
  }
  return true;
}

// Where all ranks do the same to their neighbours, their clocks are the same, and one rank's clock is everyone's: what it
// sends d ranks up is what it receives from d ranks down. With nodes, one node stands for all. Channels are therefore named
// by a sender's number within the period and the distance to the receiver; a schedule without such a symmetry has a period
// of all ranks.
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
        period_(watch ? s.ranks : period()) {
    double const chunk = work.bytes / schedule.lanes(s) / schedule.chunks(s);
    slices_ =
        work.slice_bytes > 0 && chunk > work.slice_bytes ? static_cast<int>((chunk - 1) / work.slice_bytes) + 1 : 1;
    bytes_ = chunk / slices_;
  }

  outcome operator()() {
    if (shape_.ranks == 1) return {.seconds = 0, .messages = 0, .simulated = 1};
    for (int rank = 0; rank < period_; ++rank)
      for (int track = 0; track < tracks_; ++track)
        runners_.push_back({cursor<S>(schedule_, shape_, {rank, track / phases_, track % phases_}, slices_, true)});
    ports_.resize(static_cast<std::size_t>(period_));
    refuse_if_too_long();
    for (std::size_t i = 0; i < runners_.size(); ++i) enter(i, 0);
    while (!events_.empty()) {
      event const e = events_.top();
      events_.pop();
      now_ = e.time;
      if (e.what == half::sending) send(e.runner);
      else if (e.what == half::receiving) receive(e.runner);
      else kept(e.runner);
    }
    for (runner const& r : runners_)
      if (!r.at.done())
        throw error({.code = error_code::bad_argument,
                     .what = "the simulated ranks wait for each other",
                     .way_out = "`tutti-sim verify` says who waits for whom"});
    int const copies = shape_.ranks / period_;
    return {.seconds = end_, .messages = messages_ * copies, .simulated = period_};
  }

 private:
  enum class half : std::uint8_t { sending, receiving, kept };
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  struct event {
    double time;
    std::uint64_t order;  // events of one moment happen in the order in which they were planned
    std::size_t runner;
    half what;
    friend bool operator>(event const& a, event const& b) {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  struct arrival {
    double head;  // when the first byte is there
    double sent;
    int chunk;
  };
  struct channel {
    std::vector<arrival> queue;
    std::size_t next = 0;
    std::size_t waiter = nobody;
  };
  struct port {
    double out = 0, in = 0;  // when it is free again
  };
  struct runner {
    cursor<S> at;
    double began = 0, sending = 0, receiving = 0;  // the clocks of the step and of its halves
    int source = 0;
    std::vector<std::pair<arrival, int>> collected{};  // what has arrived for this unit, and from whom
    bool busy = false;                                 // a unit is being received
    bool gated = false;
  };

  int period() const {
    int const node = model_.ranks_per_node > 0 ? model_.ranks_per_node : 1;
    return repeats(schedule_, shape_, node) ? node : shape_.ranks;
  }

  void refuse_if_too_long() const {
    double messages = 0;  // long schedules are sampled
    for (runner const& r : runners_) {
      int const steps = schedule_.steps(shape_, r.at.me());
      bool const sampled = steps > 64;
      for (int i = 0; i < steps; i += sampled ? steps / 16 : 1) {
        step const t = schedule_.at(shape_, r.at.me(), i);
        messages += 1.0 * t.to.count * slices_ * (sampled ? steps / 16 : 1);
      }
      if (messages <= most_messages) continue;
      throw error(
          {.code = error_code::bad_argument,
           .what = "a simulation of more than " + std::to_string(static_cast<long>(most_messages)) + " messages",
           .way_out = "take fewer ranks or larger slices, or an algorithm with fewer messages"});
    }
  }

  void plan(double time, std::size_t i, half what) { events_.push({time, planned_++, i, what}); }

  // Begins a step, passing over steps with nothing to do.
  void enter(std::size_t i, double time) {
    runner& r = runners_[i];
    while (!r.at.done() && r.at.step_done()) r.at.next();
    r.began = r.sending = r.receiving = time;
    if (r.at.done()) end_ = std::max(end_, time);
    else plan(time, i, half::sending), plan(time, i, half::receiving);
  }

  // A unit is done: perhaps the step, and perhaps the next phase may go on.
  void leave(std::size_t i) {
    runner& r = runners_[i];
    if (r.at.step_done()) {
      double const time = std::max(r.sending, r.receiving);
      if (watch_) watch_->on_step({r.at.me(), r.at.index(), r.began, time});
      r.at.next();
      enter(i, time);
    }
    if (i + 1 < runners_.size() && runners_[i + 1].gated) {
      runners_[i + 1].gated = false;
      double const time = std::max(now_, r.at.done() ? std::max(r.sending, r.receiving) : now_);
      plan(time, i + 1, half::sending), plan(time, i + 1, half::receiving);
    }
  }

  bool open(std::size_t i, unit of, int u) {
    runner& r = runners_[i];
    if (r.at.me().phase == 0 || runners_[i - 1].at.finished(of, u)) return true;
    r.gated = true;
    return false;
  }

  void send(std::size_t i) {
    runner& r = runners_[i];
    cursor<S>& c = r.at;
    if (c.done() || c.sent >= c.sends() || now_ < r.sending) return;
    unit const u = c.at(c.sent);
    if (!open(i, u, c.sent)) return;
    region const& give = c.now().give;
    r.sending =
        transmit(c, bytes_of(give), [&](int k) { return give.what.at(give.split ? k : 0, schedule_.chunks(shape_)); });
    ++c.sent;
    if (c.sent < c.sends()) plan(r.sending, i, half::sending);
    if (c.may_receive()) plan(now_, i, half::receiving);
    leave(i);
  }

  // Sends a unit to all of `to` and says when the port has taken the last of it.
  template <class ChunkFor>
  double transmit(cursor<S> const& c, double bytes, ChunkFor chunk_for) {
    int const rank = c.me().rank;
    port& mine = ports_[static_cast<std::size_t>(rank)];
    double done = now_;
    for (int k = 0; k < c.now().to.count; ++k) {
      int const peer = c.now().to.at(k, shape_.ranks);
      if (peer == rank) continue;
      double const start = std::max(now_, mine.out);
      mine.out = done = start + model_.gap + bytes * model_.beta;
      channel& to = channels_[key(rank, peer, c.me())];
      if (to.next == to.queue.size()) to.queue.clear(), to.next = 0;
      to.queue.push_back({start + alpha(rank, peer), start, chunk_for(k)});
      messages_ += 1;
      if (to.waiter != nobody)
        plan(std::max(now_, to.queue.back().head), std::exchange(to.waiter, nobody), half::receiving);
    }
    return done;
  }

  void receive(std::size_t i) {
    runner& r = runners_[i];
    cursor<S>& c = r.at;
    if (c.done() || r.busy || !c.may_receive() || now_ < r.receiving || !open(i, c.at(c.received), c.received)) return;
    for (; r.source < c.now().from.count; ++r.source) {
      int const peer = c.now().from.at(r.source, shape_.ranks), rank = c.me().rank;
      if (peer == rank) continue;
      channel& from = channels_[key(peer, rank, c.me())];
      if (from.next == from.queue.size()) {
        from.waiter = i;
        return;
      }
      r.collected.push_back({from.queue[from.next++], peer});
    }
    double ready = now_;
    for (auto const& [a, peer] : r.collected) ready = std::max(ready, a.head);
    if (ready > now_) return plan(ready, i, half::receiving);

    // The port takes messages in the order of their arrival, whatever the order in which they are combined.
    if (r.collected.size() > 1)
      std::sort(r.collected.begin(), r.collected.end(),
                [](auto const& a, auto const& b) { return a.first.head < b.first.head; });
    port& mine = ports_[static_cast<std::size_t>(c.me().rank)];
    double const bytes = bytes_of(c.now().keep);
    double done = now_;
    for (auto const& [a, peer] : r.collected) {
      mine.in = done = std::max(mine.in, a.head) + bytes * model_.beta;
      if (watch_) watch_->on_message({peer, c.me().rank, c.me().lane, a.chunk, a.sent, done});
    }
    done = std::max(done, now_);
    if (c.now().reduces()) done += (c.now().from.count - 1) * bytes * model_.gamma;
    r.receiving = done;
    r.busy = true;
    plan(done, i, half::kept);
  }

  void kept(std::size_t i) {
    runner& r = runners_[i];
    cursor<S>& c = r.at;
    r.busy = false;
    r.source = 0;
    r.collected.clear();
    region const& keep = c.now().keep;
    if (c.now().forwards()) transmit(c, bytes_of(keep), [&](int) { return keep.what.at(0, schedule_.chunks(shape_)); });
    ++c.received;
    if (!c.step_done() && c.may_receive()) plan(now_, i, half::receiving);
    leave(i);
  }

  // Of one unit: a message of several chunks has as many slices as one chunk, each as many times larger.
  double bytes_of(region const& r) const { return r.split ? bytes_ : bytes_ * r.what.count; }

  double alpha(int from, int to) const {
    int const node = model_.ranks_per_node;
    return node > 0 && from / node == to / node ? model_.alpha_inside : model_.alpha;
  }
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
  int slices_ = 1;
  double bytes_ = 0;  // of a slice of one chunk
  double now_ = 0, end_ = 0, messages_ = 0;
  std::uint64_t planned_ = 0;
  std::vector<runner> runners_;
  std::vector<port> ports_;
  std::unordered_map<std::uint64_t, channel> channels_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
};

// The time that `schedule` takes. Throws tutti::error where that would be more messages than most_messages. `watch` sees all
// ranks' steps and messages, and so makes the simulation do without symmetry.
template <step_function S>
outcome simulate(S const& schedule, shape s, workload work, model const& m = {}, observer const* watch = nullptr) {
  return simulation<S>(schedule, s, work, m, watch)();
}

}  // namespace tutti::analyze
