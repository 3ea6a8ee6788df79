// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks through a schedule: which message a rank sends or receives next, and where it is cut into slices. Every execution
// and every analysis goes this way, so a proof covers the code that runs.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>

#include "tutti/algorithm/concept.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/partition.hpp"

namespace tutti::detail {

// The lengths of messages, in elements: of real buffers in an execution, of symbols in a proof.
template <class S>
concept message_sizes = requires(S const& sizes, int lane, region const& r, int k) {
  { sizes.count(lane, r, k) } -> std::same_as<std::size_t>;  // of the message to or from peer k
  { sizes.largest(lane, r) } -> std::same_as<std::size_t>;   // of the longest of these
  { sizes.largest_chunk(lane) } -> std::same_as<std::size_t>;
};

// Where peers read a rank's memory in place, one message refers them to up to this many slices, a run. Runs begin at multiples of it.
inline constexpr std::size_t longest_run = 16;

// A slice of a message, or several.
struct message_slice {
  extent range;       // elements of the message, all its chunks together
  bool more = false;  // further slices of the message follow
};

// The state of one (lane, phase) of one rank. Its step has a sending and a receiving half, each of which counts the slices
// that it has finished. A step that forwards sends in its receiving half.
struct cursor {
  position me{};
  int steps = 0;
  std::size_t turns = 1;  // how often it goes through all steps: once, or once for each slice of a pipelined schedule
  bool finished = true;

  std::size_t turn = 0;
  int index = 0;  // of the step
  step now{};
  std::size_t end = 0;  // both halves have slices up to this one
  std::size_t sent = 0;
  std::size_t received = 0;
  int sending = 0;      // the next receiver of slice `sent`
  int receiving = 0;    // the next source of slice `received`, where sources are stored one by one
  std::size_t run = 1;  // how many slices are received at once

  // `available`: how many slices the phase before has finished.
  TUTTI_HOST_DEVICE constexpr bool may_send(std::size_t available) const { return sent < end && sent < available; }
  // How many slices may be received. Receiving stays behind sending, because a step sends what memory held before the step.
  TUTTI_HOST_DEVICE constexpr std::size_t receivable(std::size_t available) const {
    std::size_t const most = available < sent ? available : sent;
    return most > received ? most - received : 0;
  }
  TUTTI_HOST_DEVICE constexpr bool may_receive(std::size_t available) const { return receivable(available) > 0; }
  TUTTI_HOST_DEVICE constexpr bool step_done() const { return sent == end && received == end; }

  TUTTI_HOST_DEVICE constexpr void sent_to_one() {
    if (++sending == now.to.count) sending = 0, ++sent;
  }
  constexpr void sent_run_to_one() {
    if (++sending == now.to.count) sending = 0, sent = sent + longest_run < end ? sent + longest_run : end;
  }
  TUTTI_HOST_DEVICE constexpr void received_from_one(std::size_t slices = 1) {
    if (++receiving == now.from.count) receiving = 0, received += slices;
  }
  TUTTI_HOST_DEVICE constexpr void received_from_all(std::size_t slices = 1) { received += slices; }
};

// The cursors of one rank in one call. They move independently, except that a phase takes a slice only when the phase
// before has finished that slice.
//
// A message is cut into slices as a whole, so a slice may end in the middle of a chunk or hold several chunks. A schedule
// that is not pipelined takes all slices of a message through one step before the next step; a pipelined one takes one
// slice through all its steps, and its messages are single chunks.
template <step_function Schedule, message_sizes Sizes>
class walk {
 public:
  // `slice`: elements at most. `announces`: the first slice of an empty message travels too, because a receiver may not
  // know that the message is empty.
  TUTTI_CALLS_ANY
  TUTTI_HOST_DEVICE walk(Schedule schedule, shape s, int rank, Sizes const& sizes, std::size_t slice, bool announces)
      : schedule_(schedule),
        shape_(s),
        sizes_(sizes),
        slice_(slice),
        announces_(announces),
        tracks_(schedule.lanes(s) * schedule.phases(s) < max_tracks ? schedule.lanes(s) * schedule.phases(s)
                                                                    : max_tracks) {
    for (int t = 0; t < tracks_; ++t) {
      cursor& c = *::new (&cursors_[t]) cursor;
      c.me = {rank, t / schedule.phases(s), t % schedule.phases(s)};
      c.steps = schedule.steps(s, c.me);
      c.turns = schedule.pipelined ? slices(sizes_.largest_chunk(c.me.lane), slice_) : 1;
      c.finished = c.steps == 0 || c.turns == 0;
      if (!c.finished) enter(c);
    }
  }

  TUTTI_HOST_DEVICE Schedule const& schedule() const noexcept { return schedule_; }
  TUTTI_HOST_DEVICE shape const& of() const noexcept { return shape_; }
  TUTTI_HOST_DEVICE int tracks() const noexcept { return tracks_; }
  TUTTI_HOST_DEVICE cursor& operator[](int track) noexcept { return cursors_[track]; }
  TUTTI_HOST_DEVICE cursor const& operator[](int track) const noexcept { return cursors_[track]; }

  TUTTI_HOST_DEVICE int peer(peers const& list, int k) const noexcept { return list.at(k, shape_.ranks); }

  // The slices that the phase before has finished.
  TUTTI_HOST_DEVICE std::size_t available(int track) const noexcept {
    constexpr auto all = static_cast<std::size_t>(-1);
    if (cursors_[track].me.phase == 0) return all;
    cursor const& before = cursors_[track - 1];
    if (before.finished) return all;
    if (schedule_.pipelined) return before.turn;
    if (before.index < before.steps - 1) return 0;
    return before.sent < before.received ? before.sent : before.received;
  }

  // `run` slices, from slice `s` on, of the message to or from peer k.
  TUTTI_HOST_DEVICE message_slice slice(int lane, region const& r, int k, std::size_t s,
                                        std::size_t run = 1) const noexcept {
    std::size_t const count = sizes_.count(lane, r, k);
    message_slice out{slice_of(count, slice_, s, run)};
    out.more = out.range.end() < count;
    return out;
  }
  // The run that slice `s` is part of.
  TUTTI_HOST_DEVICE message_slice run(int lane, region const& r, int k, std::size_t s) const noexcept {
    return slice(lane, r, k, s - s % longest_run, longest_run);
  }
  // Messages of one step may differ in length, so the last slices of some have no elements, and are not sent.
  TUTTI_HOST_DEVICE bool travels(message_slice const& m, std::size_t s) const noexcept {
    return m.range.count > 0 || (announces_ && s == 0);
  }

  // Goes on to the next step, once this one is done.
  TUTTI_HOST_DEVICE void leave(cursor& c) {
    if (++c.index == c.steps) {
      c.index = 0;
      if (++c.turn == c.turns) {
        c.finished = true;
        return;
      }
    }
    enter(c);
  }

 private:
  TUTTI_HOST_DEVICE void enter(cursor& c) {
    // Constructed in place: a copy would have to wait for the stores that have just been made.
    ::new (&c.now) step(schedule_.at(shape_, c.me, c.index));
    c.sent = c.received = schedule_.pipelined ? c.turn : 0;
    c.end = schedule_.pipelined ? c.turn + 1 : step_slices(c);
    c.sending = c.receiving = 0;
    if (c.now.to.empty() || c.now.forwards()) c.sent = c.end;
    if (c.now.from.empty()) c.received = c.end;
  }

  TUTTI_HOST_DEVICE std::size_t step_slices(cursor const& c) const noexcept {
    std::size_t const out = slices(sizes_.largest(c.me.lane, c.now.give), slice_);
    std::size_t const in = slices(sizes_.largest(c.me.lane, c.now.keep), slice_);
    bool const sends = !c.now.to.empty() && !c.now.forwards(), receives = !c.now.from.empty();
    std::size_t const most = sends && (!receives || in < out) ? out : receives ? in : 0;
    return most == 0 && announces_ ? 1 : most;
  }

  Schedule schedule_;
  shape shape_;
  Sizes const& sizes_;
  std::size_t slice_;  // elements
  bool announces_;
  int tracks_;
  union {
    cursor cursors_[max_tracks];  // of which the call uses the first
  };
};

}  // namespace tutti::detail
