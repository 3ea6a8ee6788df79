// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call from the moment at which other ranks can see it, to its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <source_location>

#include "tutti/call/call.hpp"

namespace tutti::detail {

// Unless finish() is reached, the destructor tells the other ranks that this one gave up.
template <class Transport>
class begun_call {
 public:
  // Throws bad_argument if the request is impossible, or the fault that the communicator has.
  begun_call(engine<Transport>& on, call_terms const& call)
      : begun_call(on, call, find_plan(on, call)) {  // from here on, the destructor runs even if begin() throws
    on.begin(plan_, where_);
  }
  begun_call(begun_call const&) = delete;
  begun_call& operator=(begun_call const&) = delete;
  ~begun_call() {
    if (!settled_) engine_.give_up();
  }

  tutti::detail::plan const& plan() const { return plan_; }
  std::uint32_t tag() const { return engine_.tag(); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  std::source_location where() const { return where_; }

  // Polls `work` until it has ended. Throws its errors, and a fault or timeout that occurs meanwhile.
  template <class Work>
  void drive(Work& work) {
    auto& transport = engine_.transport();
    bool const done = wait_until_done([&] { return engine_.poll(work); }, transport.waits(), countdown(timeout_),
                                      [&](auto const& ready) {
                                        transport.nap(ready);
                                        engine_.examine(where_);
                                        return true;
                                      });
    if (work.found()) engine_.report(work.found(), where_);
    if (!done) engine_.report_timeout(timeout_, where_);
  }
  [[noreturn]] void report(protocol_violation const& s) { engine_.report(s, where_); }
  void finish() {
    engine_.finish(where_);
    settled_ = true;
  }
  // Leaves the end of the call to somebody else.
  void hand_over() noexcept { settled_ = true; }

 private:
  begun_call(engine<Transport>& on, call_terms const& call, tutti::detail::plan const& found)
      : engine_(on), timeout_(on.timeout_for(call.timeout)), where_(call.where), plan_(found) {}

  static tutti::detail::plan const& find_plan(engine<Transport>& on, call_terms const& call) {
    if (call.timeout.count() < 0) refuse_negative_timeout(on.rank(), call.where);
    on.enter(call.where);
    return on.plans.find(call.asked, [&] { return introduce(on, call); });
  }
  // Plans a new request; puts its names on the notice board.
  [[gnu::cold, gnu::noinline]] static tutti::detail::plan introduce(engine<Transport>& on, call_terms const& call) try {
    request const& r = call.asked;
    on.introduce(r.type, call.names->type);
    if (r.op != 0) on.introduce(r.op, call.names->operation);
    if (r.unlisted != nullptr) {
      on.introduce(r.unlisted->id, r.unlisted->name);
      note_own_schedule(r);
    }
    return make_plan(on, r, call.schedules, call.where);
  } catch (...) {
    on.leave();
    throw;
  }

  engine<Transport>& engine_;
  std::chrono::nanoseconds timeout_;
  std::source_location where_;
  tutti::detail::plan const& plan_;
  bool settled_ = false;
};

}  // namespace tutti::detail
