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

// Whether slices pass through windows, because arrays may have gaps.
template <class Layout>
concept has_windows = requires(Layout const& where) { where.windows; };

// A running collective: a walk through the schedule over the channels and buffers of this rank. Blocking and started calls drive
// it in the same way. Only the operation may throw. A message that is not due ends the execution, and the caller reports it.
template <carries_slices Transport, step_function Schedule, class Body, class Layout = layout>
class execution {
 public:
  using element = typename Body::element;
  static constexpr bool reads_peers = maps_memory<Transport>;  // in place, so they must know when: faults_in_call

  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE execution(Transport& transport, reference_list* references, Schedule schedule, shape s,
                              surfaces<element, Layout> const& memory, Body body, std::uint32_t tag, access const& how,
                              bool announces)
      : traffic_(transport, references, how, tag),
        memory_(memory),
        body_(body),
        streams_(how.streams),
        shows_input_(how.shows_input),
        shows_output_(how.shows_output),
        walk_(schedule, s, transport.rank(), memory, body.whole_elements(how.slice), announces) {}

  // Moves every cursor as far as it goes without waiting.
  TUTTI_HOST_DEVICE progress poll();

  TUTTI_HOST_DEVICE protocol_violation const& found() const noexcept { return traffic_.found(); }

 private:
  using cursor = detail::cursor;
  using message_slice = detail::message_slice;
  using view = typename traffic<Transport, element>::view;
  using fan = typename traffic<Transport, element>::fan;
  using readable_pieces = pieces<element const, Layout>;
  using writable_pieces = pieces<element, Layout>;

  // A window has room for one slice only.
  static constexpr bool receives_runs = maps_memory<Transport> && !has_windows<Layout>;

  // One message sent or one slice received; false where nothing can be done now.
  TUTTI_HOST_DEVICE bool advance(int track) {
    cursor& c = walk_[track];
    if (c.finished) return false;
    std::size_t const available = walk_.available(track);
    bool moved = false;
    if (c.may_send(available)) moved |= send(c, track, available);
    if (std::size_t const most = c.receivable(available); most > 0) {
      if constexpr (receives_runs)
        if (c.receiving == 0) c.run = slices_at_once(c, track, most);
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

  // `available`: how many slices may be sent.
  TUTTI_HOST_DEVICE bool send(cursor& c, int track, std::size_t available) {
    region const& give = c.now.give;
    int const peer = walk_.peer(c.now.to, c.sending);
    std::size_t slices = 1;
    if constexpr (maps_memory<Transport>)
      if (refers_to_runs(give)) {
        slices = longest_run;
        if (available < c.sent + slices && available < c.end) return false;
      }
    message_slice const part = walk_.slice(c.me.lane, give, c.sending, c.sent, slices);
    extent const& range = part.range;
    if (peer != c.me.rank && walk_.travels(part, c.sent)) {
      element* const place = traffic_.claim(peer, track, range.count, body_.alignment());
      if (place == nullptr) return false;
      bool const raw = body_.prepares() && give.where == space::input;
      auto from = memory_.pieces(c.me.lane, give, memory_.share(give, c.sending), range);
      if constexpr (has_windows<Layout>)
        if (!choose_window(from, peer, track, c.sent, range.count)) return false;
      if (!raw && gathers(from, c)) {
        gather(from, place);
        traffic_.publish(peer, track, range.count, part.more);
      } else if (from.count() == range.count && !raw && traffic_.refers(from.data(), range.count)) {
        traffic_.refer(peer, track, from.data(), range.count, part.more);
      } else {
        for (std::size_t done = 0; from.count() > 0; done += from.count(), from.skip(from.count()))
          traffic_.write(body_, from.data(), place + done, from.count(), raw);
        traffic_.publish(peer, track, range.count, part.more);
      }
    }
    if constexpr (maps_memory<Transport>)
      if (slices > 1) {
        c.sent_run_to_one();
        return true;
      }
    c.sent_to_one();
    return true;
  }

  // Whether peers read the messages of this region in place, each of which is contiguous.
  bool refers_to_runs(region const& give) const noexcept {
    return (give.split || give.what.count == 1) &&
           ((give.where == space::input && shows_input_) || (give.where == space::output && shows_output_));
  }

  // In a call whose messages are fetched, slices of an array with gaps are gathered where the peer can read them; false while it
  // is still reading the one that was there.
  bool choose_window(readable_pieces& from, int peer, int track, std::size_t slice, std::size_t count) noexcept
    requires has_windows<Layout>
  {
    if (!traffic_.pulls() || !from.has_gaps()) return true;
    element* const window = memory_.input.where.windows.shown(peer, track, slice);
    if (!traffic_.all_read(window, count)) return false;
    from.use_window(window);
    return true;
  }

  // -- Receiving. If all sources have a run of slices, they are received at once: 512 KiB by gather takes 0.8 of the time (Zen 1).

  [[gnu::noinline]] std::size_t slices_at_once(cursor const& c, int track, std::size_t most) noexcept {
    if (most == 1 || c.now.forwards()) return 1;
    for (int k = 0; k < c.now.from.count; ++k)
      if (int const peer = walk_.peer(c.now.from, k); peer != c.me.rank && !traffic_.has_run(peer, track)) return 1;
    std::size_t const rest = longest_run - c.received % longest_run;
    return rest < most ? rest : most;
  }
  TUTTI_HOST_DEVICE static std::size_t run_of([[maybe_unused]] cursor const& c) noexcept {
    if constexpr (receives_runs) return c.run;
    else return 1;
  }
  TUTTI_HOST_DEVICE bool arrived(cursor const& c, int track, int k, message_slice const& part, view& out) noexcept {
    return traffic_.arrived(walk_.peer(c.now.from, k), track, part, [&] { return current_run(c, k); }, out);
  }
  [[gnu::noinline]] TUTTI_HOST_DEVICE message_slice current_run(cursor const& c, int k) const noexcept {
    return walk_.run(c.me.lane, c.now.keep, k, c.received);
  }
  // Releases a message that ends with this part.
  TUTTI_HOST_DEVICE void release(cursor const& c, int track, int k, view const& from,
                                 message_slice const& part) noexcept {
    if constexpr (maps_memory<Transport>)
      if (from.in_run && part.more && (c.received + run_of(c)) % longest_run != 0) return;
    traffic_.release(walk_.peer(c.now.from, k), track);
  }

  // -- Receiving from all sources at once, combining, and passing on.

  TUTTI_HOST_DEVICE bool receive(cursor& c, int track) {
    step const& t = c.now;
    message_slice const part = walk_.slice(c.me.lane, t.keep, 0, c.received, run_of(c));
    if (walk_.travels(part, c.received)) {
      auto&& lists = traffic_.lists();
      int self = -1;
      for (int k = 0; k < t.from.count; ++k) {
        if (walk_.peer(t.from, k) == c.me.rank) self = k;
        else if (!arrived(c, track, k, part, lists.arrived[k])) return false;
      }
      if ((part.range.count > 0 || t.forwards()) && !combine_slice(c, track, part, lists, self)) return false;
      for (int k = 0; k < t.from.count; ++k)
        if (k != self) release(c, track, k, lists.arrived[k], part);
    }
    c.received_from_all(run_of(c));
    return true;
  }

  TUTTI_HOST_DEVICE bool combine_slice(cursor const& c, int track, message_slice const& part, fan& lists, int self) {
    step const& t = c.now;
    extent const& range = part.range;
    bool const keeps = t.keep.where != space::none;
    auto kept =
        keeps ? memory_.writable_pieces(c.me.lane, t.keep, t.keep.what, range) : writable_pieces{nullptr, range.count};
    if (keeps && !all_read(kept)) return false;

    // Peers read the result where it is kept, if they can.
    bool const refer_kept =
        t.forwards() && keeps && kept.count() == range.count && traffic_.refers(kept.data(), range.count);
    element const* const kept_at = refer_kept ? kept.data() : nullptr;
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
        return fetch_slice(walk_.peer(t.from, 0), kept, arrived[0]);
      for (int k = 0; k < t.from.count; ++k)
        if (k != self && arrived[k].foreign && !traffic_.fetch(walk_.peer(t.from, k), k, arrived[k], range.count))
          return false;
    }

    if (kept.has_gaps() && t.from.count == 1 && self < 0 && !t.forwards() && !t.complete) {
      scatter(kept, arrived[0].data);
      return true;
    }

    bool const raw = self >= 0 && t.own.where == space::input;
    stage const how{.prepare = raw ? self : -1, .finish = t.complete ? walk_.of().ranks : 0, .stream = streams(c)};
    auto own = self >= 0 ? memory_.pieces(c.me.lane, t.own, t.own.what, range) : readable_pieces{nullptr, range.count};
    for (std::size_t done = 0; kept.count() > 0 && own.count() > 0;) {
      std::size_t const n = kept.count() < own.count() ? kept.count() : own.count();
      for (int k = 0; k < t.from.count; ++k) lists.sources[k] = k == self ? own.data() : arrived[k].data + done;
      for (int k = 0; k < outgoing; ++k) lists.destinations[k] = lists.claimed[k] + done;
      if (keeps) lists.destinations[outgoing] = kept.data();
      body_(lists.sources, t.from.count, lists.destinations, outgoing + keeps, n, how);
      done += n;
      kept.written(n);
      kept.skip(n);
      own.skip(n);
    }

    if (t.forwards())
      for (int k = 0; k < t.to.count; ++k) {
        int const peer = walk_.peer(t.to, k);
        if (peer == c.me.rank) continue;
        if (refer_kept) traffic_.refer(peer, track, kept_at, range.count, part.more);
        else traffic_.publish(peer, track, range.count, part.more);
      }
    return true;
  }

  // -- Receiving from each source into a chunk of its own.

  TUTTI_HOST_DEVICE bool receive_next(cursor& c, int track) {
    step const& t = c.now;
    int const peer = walk_.peer(t.from, c.receiving);
    message_slice const part = walk_.slice(c.me.lane, t.keep, c.receiving, c.received, run_of(c));
    extent const& range = part.range;
    if (walk_.travels(part, c.received)) {
      chunks const chunk = memory_.share(t.keep, c.receiving);
      auto const kept = memory_.writable_pieces(c.me.lane, t.keep, chunk, range);
      view from{};
      if (peer == c.me.rank) from.data = memory_.pieces(c.me.lane, t.own, t.own.what, range).data();
      else if (!arrived(c, track, c.receiving, part, from)) return false;
      // In place, the own chunk is where it belongs already, and peers may be reading it.
      if (range.count > 0 && (from.foreign || from.data != kept.data())) {
        if (!all_read(kept)) return false;
        if (from.foreign) {
          if (!fetch_slice(peer, kept, from)) return false;
        } else if (kept.has_gaps()) {
          scatter(kept, from.data);
        } else {
          element* const to = kept.data();
          body_(&from.data, 1, &to, 1, range.count, {.stream = streams(c)});
        }
      }
      if (peer != c.me.rank) release(c, track, c.receiving, from, part);
    }
    c.received_from_one(run_of(c));
    return true;
  }

  // -- Writing.

  // Whether peers have read all that they were referred to in these pieces.
  TUTTI_HOST_DEVICE bool all_read(writable_pieces where) noexcept {
    if (traffic_.refers_to_any())
      for (; where.count() > 0; where.skip(where.count()))
        if (!traffic_.all_read(where.data(), where.count())) return false;
    return true;
  }

  // Fetches a slice to where it is kept.
  TUTTI_HOST_DEVICE bool fetch_slice(int peer, writable_pieces to, view from) noexcept {
    for (; to.count() > 0; from.data += to.count(), to.skip(to.count())) {
      if (!traffic_.fetch(peer, from.data, to.data(), to.count())) return false;
      to.written(to.count());
    }
    return true;
  }

  // -- Arrays with gaps, without a window.

  // Whether a slice is gathered in its slot (two ranks then broadcast 16,384 strided floats in 12.1 instead of 15.6 us): unless it is
  // read again, the slot is better written past the caches, or it is an eighth one, by which the transport measures the other way.
  TUTTI_HOST_DEVICE bool gathers(readable_pieces const& from, cursor const& c) const noexcept {
    [[maybe_unused]] step const& t = c.now;
    if constexpr (has_windows<Layout>)
      return from.has_gaps() && !traffic_.pulls() &&
             (t.give.split || (t.to.count == 1 && t.own.where != t.give.where)) && c.sent % 8 != 7 &&
             !traffic_.streams(from.count());
    else return false;
  }
  TUTTI_HOST_DEVICE static void gather(readable_pieces from, element* to) noexcept {
    if constexpr (has_windows<Layout>)
      for (; from.count() > 0; to += from.count(), from.skip(from.count())) from.gather_to(to);
  }
  TUTTI_HOST_DEVICE static void scatter(writable_pieces to, element const* from) noexcept {
    if constexpr (has_windows<Layout>)
      for (; to.count() > 0; from += to.count(), to.skip(to.count())) to.scatter_from(from);
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
  bool streams_, shows_input_, shows_output_;
  detail::walk<Schedule, surfaces<element, Layout>> walk_;
};

// Outside the class, where `extern template` keeps other programs from compiling it.
template <carries_slices Transport, step_function Schedule, class Body, class Layout>
TUTTI_HOST_DEVICE progress execution<Transport, Schedule, Body, Layout>::poll() {
  bool moved = false, finished = true;
  for (int t = 0; t < walk_.tracks(); ++t) {
    if constexpr (has_windows<Layout>) {
      // One slice at a time, so that a phase sends what the phase before has just left in a window.
      moved |= advance(t);
    } else {
      while (advance(t)) moved = true;
    }
    if (traffic_.found()) return progress::done;
    finished &= walk_[t].finished;
  }
  if (finished && traffic_.settled()) return progress::done;
  return moved ? progress::moved : progress::stuck;
}

}  // namespace tutti::detail
