// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way of a rank through one phase of one lane, as the executor goes it: steps, and within them units.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti::analyze {

// A unit is one slice of one chunk, the k-th of its region (where split: of every peer's chunk).
struct unit {
  int k = 0;
  int slice = 0;
};

// A schedule that is not pipelined takes all slices of all chunks of a message through one step before the next step;
// a pipelined one takes one slice through all steps. A step has two halves, sending and receiving, each a stream of
// units; where a step forwards, it is the receiving half that sends.
template <step_function S>
class cursor {
 public:
  // `whole`: a unit is a slice of a whole message, of all its chunks together.
  cursor(S const& schedule, shape s, position me, int slices, bool whole = false)
      : schedule_(&schedule), shape_(s), me_(me), slices_(slices), steps_(schedule.steps(s, me)), whole_(whole) {
    if (!done()) load();
  }

  position const& me() const { return me_; }
  step const& now() const { return now_; }
  int index() const { return index_; }
  bool done() const { return index_ >= steps_; }

  int sends() const { return sends_; }
  int receives() const { return receives_; }
  bool step_done() const { return sent >= sends_ && received >= receives_; }
  unit at(int u) const { return schedule_->pipelined ? unit{u, turn_} : unit{u / slices_, u % slices_}; }

  // Receiving stays behind sending, because content is read from `give` before the step's result is kept.
  bool may_receive() const { return received < receives_ && (sent > received || sent >= sends_); }

  // Whether the next phase may take its unit u: this phase has done with as many units in its last step (with that slice,
  // where the schedule is pipelined).
  bool finished(unit of, int u) const {
    if (done()) return true;
    if (schedule_->pipelined) return turn_ > of.slice;
    return index_ == steps_ - 1 && (sent > u || sent >= sends_) && (received > u || received >= receives_);
  }

  void next() {
    if (++index_ == steps_ && schedule_->pipelined && ++turn_ < slices_) index_ = 0;
    if (!done()) load();
  }

  int sent = 0;  // whole units
  int received = 0;
  int peer_to = 0;  // within the unit: the next of now().to and, where they are stored one by one, of now().from
  int peer_from = 0;

 private:
  void load() {
    now_ = schedule_->at(shape_, me_, index_);
    int const each = schedule_->pipelined ? 1 : slices_;
    sends_ = now_.to.empty() || now_.forwards() ? 0 : each * units(now_.give);
    receives_ = now_.from.empty() ? 0 : each * units(now_.keep);
    sent = received = peer_to = peer_from = 0;
  }

  int units(region const& r) const { return r.split || whole_ ? 1 : r.what.count; }

  S const* schedule_;
  shape shape_;
  position me_;
  int slices_, steps_;
  bool whole_;
  int index_ = 0;
  int turn_ = 0;  // pipelined: the slice
  step now_{};
  int sends_ = 0, receives_ = 0;
};

}  // namespace tutti::analyze
