// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of execution.hpp: running threads, and reports.
#include "explore/execution.hpp"

#include "explore/total_order.hpp"

namespace tutti::testing::explore {

namespace {

char const* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
    default: return "acquire";
  }
}

}  // namespace

execution* execution::running_ = nullptr;

execution::execution(program const& p, change const& c, std::uint64_t last_access)
    : program_(p), changes_(p.changes), last_access_(last_access), threads_(static_cast<std::size_t>(p.threads)) {
  changes_.push_back(c);
}

// ---- Running.

execution::ends execution::run(script const& given, strategy& how) {
  memory_.restore();
  strategy_ = &how;
  violation_.clear();
  discarded_ = false;
  current_ = granted_ = -1;
  if (program_.set_up) program_.set_up();
  load_script(given);
  running_ = this;
  schedule(how);
  ends const out = end();
  running_ = nullptr;
  return out;
}

void execution::load_script(script const& given) {
  for (shared_word& l : locations_) {
    l.order.clear();
    l.initial.reset();
  }
  added_.clear();
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    participant& own = threads_[t];
    own.events.clear();
    own.script.clear();
    own.stamps.clear();
    own.before = {};
    own.current = own.acquired = own.released = {};
    own.held.clear();
    own.blocked = own.dead = false;
    own.accesses = 0;
    own.polled = 0;
    own.body.start([this, t] {
      program_.body(static_cast<int>(t));
      release_held({});
    });
  }
  next_stamp_ = 0;
  for (scripted_event const& e : given.events) {
    participant& own = threads_[e.thread];
    added_.push_back({e.thread, static_cast<std::uint16_t>(own.script.size())});
    own.script.push_back(e);
    own.stamps.push_back(next_stamp_++);
  }
  for (script::place const& p : given.modifications) locations_[p.location].order.push_back(p.store);
}

void execution::run_thread(int number, bool adds_events) {
  current_ = number;
  granted_ = adds_events ? number : -1;
  threads_[static_cast<std::size_t>(number)].body.resume();
  current_ = granted_ = -1;
}

// First the script, then whatever the strategy chooses.
void execution::schedule(strategy& how) {
  auto const stopped = [&] { return discarded_ || !violation_.empty(); };
  for (bool moved = true; moved && !stopped();) {
    moved = false;
    for (int t = 0; t < threads(); ++t) {
      if (stopped() || !is_due(threads_[static_cast<std::size_t>(t)])) continue;
      run_thread(t, false);
      moved = true;
    }
  }
  while (!stopped()) {
    std::vector<int> can_run;
    for (int t = 0; t < threads(); ++t) {
      participant const& own = threads_[static_cast<std::size_t>(t)];
      if (!own.body.ended() && !own.dead && (!own.blocked || (how.resumes() && !is_current(own)))) can_run.push_back(t);
    }
    if (can_run.empty()) return;
    int const updates = pending_update(), next = updates >= 0 ? updates : how.next_thread(can_run);
    threads_[static_cast<std::size_t>(next)].blocked = false;
    run_thread(next, true);
  }
}

// Whether the next event of a thread is in the script, and the store that it reads has been made.
bool execution::is_due(participant const& t) const {
  if (t.events.size() >= t.script.size()) return false;
  scripted_event const& next = t.script[t.events.size()];
  return next.kind != event_kind::load || next.reads_from.is_initial() ||
         next.reads_from.index < events_of(next.reads_from.thread).size();
}

// A read-modify-write whose store is still to come: nothing may come between.
int execution::pending_update() const {
  for (int t = 0; t < threads(); ++t)
    if (auto const& events = events_of(t);
        !events.empty() && events.back().kind == event_kind::load && events.back().exclusive)
      return t;
  return -1;
}

bool execution::has_death() const {
  return program_.dies.thread >= 0 && threads_[static_cast<std::size_t>(program_.dies.thread)].dead;
}

bool execution::is_current(participant const& t) const {
  for (std::size_t i = t.events.size(); i-- > t.polled;) {
    event const& e = t.events[i];
    if (e.kind == event_kind::store) break;
    if (e.kind != event_kind::load) continue;
    std::vector<reference> const& order = modifications(e.location);
    if (position(order, e.reads_from) != order.size()) return false;
  }
  return true;
}

execution::ends execution::end() {
  if (discarded_ || !has_total_order(*this)) {
    violation_.clear();
    return ends::discarded;
  }
  std::string waiting;
  bool all_current = true;
  for (int t = 0; t < threads(); ++t) {
    participant const& own = threads_[static_cast<std::size_t>(t)];
    if (!own.blocked) continue;
    waiting += (waiting.empty() ? "thread " : ", thread ") + std::to_string(t);
    all_current = all_current && is_current(own);
  }
  if (!waiting.empty() && violation_.empty()) {
    if (!all_current) return ends::blocked;
    violation_ = "deadlock: " + waiting + " would wait for ever";
  }
  if (violation_.empty() && program_.at_end) program_.at_end();
  return violation_.empty() ? ends::complete : ends::violation;
}

// ---- Reports.

std::string execution::describe(reference r) {
  event const& e = at(r);
  std::string out = "thread " + std::to_string(r.thread) + ": ";
  if (e.kind == event_kind::fence) return out + "fence " + name_of(e.order);
  shared_word const& where = locations_[e.location];
  out += e.kind == event_kind::load ? "load " : "store ";
  out += std::string(name_of(e.order)) + (e.exclusive ? ", update, of " : " of ") + where.name.whole + " = " +
         std::to_string(e.value);
  if (e.kind != event_kind::load) return out;
  std::size_t const read = position(where.order, e.reads_from);
  if (read == 0) out += ", the initial value";
  else out += ", from thread " + std::to_string(e.reads_from.thread);
  if (read < where.order.size())
    out += ", overwritten " + std::to_string(where.order.size() - read) + " times in the end";
  return out;
}

std::string execution::trace() {
  std::string out;
  for (reference const r : added_)
    if (r.index < events_of(r.thread).size()) out += describe(r) + "\n";
  return out;
}

}  // namespace tutti::testing::explore
