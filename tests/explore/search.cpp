// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ways to choose executions: all of them, each once, or at random.
//
// All of them: the algorithm TruSt (Kokologiannakis et al., POPL 2022). An execution is extended by one event at a time, always
// of the first thread that can go on. A load may return any store that it finds: the search continues with the latest, and
// keeps a script for each other one. A store may also be returned by loads that came before it: the search keeps a script for
// each such load, in which the load returns the new store, and the events between the two that the store does not depend on are
// gone. Different ways lead to the same script, and only one may be taken: the one in which each event that is removed, and the
// load, had chosen the latest store there was.
//
// A thread whose poll fails waits for ever: whatever its poll could have seen later, another script has its loads return.
#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "explore/execution.hpp"

namespace tutti::testing::explore {

namespace {

// Copies the events that `keeps` accepts.
template <class Keeps>
script copy_of(execution const& e, Keeps&& keeps) {
  script out;
  for (reference const r : e.added()) {
    event const& of = e.at(r);
    if (keeps(r))
      out.events.push_back({static_cast<std::uint8_t>(r.thread), of.kind, of.exclusive, of.location, of.reads_from});
  }
  return out;
}

template <class Keeps>
std::vector<reference> kept_modifications(execution const& e, std::uint16_t location, Keeps&& keeps) {
  std::vector<reference> out;
  for (reference const r : e.modifications(location))
    if (keeps(r)) out.push_back(r);
  return out;
}

template <class Keeps>
void add_modifications(script& to, execution const& e, Keeps&& keeps, int without = -1) {
  for (std::size_t l = 0; l < e.locations(); ++l)
    if (static_cast<int>(l) != without)
      for (reference const r : kept_modifications(e, static_cast<std::uint16_t>(l), keeps))
        to.modifications.push_back({static_cast<std::uint16_t>(l), r});
}

class all_executions final : public strategy {
 public:
  int next_thread(std::vector<int> const& can_run) override { return can_run.front(); }
  bool switches() override { return false; }
  bool resumes() override { return false; }

  reference read(execution const& e, int thread, std::uint16_t location, bool,
                 std::vector<reference> const& allowed) override {
    auto const everything = [](reference) { return true; };
    for (std::size_t k = 0; k + 1 < allowed.size(); ++k) {
      script other = copy_of(e, everything);
      other.events.push_back({static_cast<std::uint8_t>(thread), event_kind::load, false, location, allowed[k]});
      add_modifications(other, e, everything);
      pending_.push_back(std::move(other));
    }
    return allowed.back();
  }

  std::optional<std::size_t> write(execution const& e, int thread, std::uint16_t location, bool exclusive) override {
    added_store const added{
        thread,
        location,
        exclusive,
        e.before_next(thread),
        {static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(e.events_of(thread).size())}};
    for (reference const load : e.added())
      if (event const& of = e.at(load); of.kind == event_kind::load && of.location == location &&
                                        !is_before(load, added) && came_first(e, load, added))
        revisit(e, load, added);
    std::vector<std::size_t> const places = e.places(thread, e.modifications(location), location, exclusive);
    if (places.empty()) return {};
    auto const everything = [](reference) { return true; };
    for (std::size_t k = 0; k + 1 < places.size(); ++k)
      keep(e, copy_of(e, everything), everything, added, e.modifications(location), places[k]);
    return places.back();
  }

  // The next prefix to go on from.
  std::optional<script> next() {
    if (pending_.empty()) return {};
    script out = std::move(pending_.back());
    pending_.pop_back();
    return out;
  }

 private:
  struct added_store {
    int thread;
    std::uint16_t location;
    bool exclusive;
    prefix before;
    reference self;
  };

  static bool is_before(reference r, added_store const& store) { return r.index < store.before[r.thread]; }

  // Whether all that a revisit would undo had chosen the latest store.
  static bool came_first(execution const& e, reference load, added_store const& added) {
    std::uint32_t const stamp = e.at(load).stamp;
    return std::ranges::all_of(e.added(), [&](reference r) {
      std::uint32_t const own = e.at(r).stamp;
      return own < stamp || (own > stamp && is_before(r, added)) || is_latest(e, r, added);
    });
  }
  static bool is_latest(execution const& e, reference r, added_store const& added) {
    event const& of = e.at(r);
    if (of.kind == event_kind::fence) return true;
    auto const there = [&](reference other) { return e.at(other).stamp <= of.stamp || is_before(other, added); };
    if (of.kind == event_kind::store)
      for (reference const other : e.added())
        if (event const& load = e.at(other);
            load.kind == event_kind::load && load.location == of.location && load.reads_from == r && there(other))
          return false;
    reference const store = of.kind == event_kind::store ? r : of.reads_from;
    std::vector<reference> const& order = e.modifications(of.location);
    auto const later = store.is_initial() ? order.begin() : std::find(order.begin(), order.end(), store) + 1;
    return std::none_of(later, order.end(), there);
  }

  void revisit(execution const& e, reference load, added_store const& added) {
    std::uint32_t const stamp = e.at(load).stamp;
    auto const keeps = [&](reference r) { return e.at(r).stamp <= stamp || is_before(r, added); };
    script out;
    for (reference const r : e.added()) {
      if (!keeps(r)) continue;
      event const& of = e.at(r);
      out.events.push_back({static_cast<std::uint8_t>(r.thread), of.kind, of.exclusive, of.location,
                            r == load ? added.self : of.reads_from});
    }
    std::vector<reference> const order = kept_modifications(e, added.location, keeps);
    for (std::size_t const place : e.places(added.thread, order, added.location, added.exclusive))
      keep(e, out, keeps, added, order, place);
  }

  template <class Keeps>
  void keep(execution const& e, script out, Keeps const& keeps, added_store const& added, std::vector<reference> order,
            std::size_t place) {
    out.events.push_back(
        {static_cast<std::uint8_t>(added.thread), event_kind::store, added.exclusive, added.location, {}});
    add_modifications(out, e, keeps, added.location);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), added.self);
    for (reference const r : order) out.modifications.push_back({added.location, r});
    pending_.push_back(std::move(out));
  }

  std::vector<script> pending_;
};

// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the thread of highest priority runs, and at a few random
// moments it falls behind all others. Loads return an older store than the latest in some executions rarely, in others often.
class random_execution final : public strategy {
 public:
  random_execution(std::uint64_t seed, int threads, std::size_t expected_events) : random_(seed) {
    for (int t = 0; t < threads; ++t) priority_.push_back(t);
    std::shuffle(priority_.begin(), priority_.end(), random_);
    for (int k = 0; k < changes; ++k) change_at_.push_back(random_() % (expected_events + 1));
    staleness_ = random_() % 3;
  }

  int next_thread(std::vector<int> const& can_run) override {
    auto const first = [&] {
      return *std::ranges::max_element(can_run, {}, [&](int t) { return priority_[static_cast<std::size_t>(t)]; });
    };
    if (std::ranges::count(change_at_, steps_++) > 0) priority_[static_cast<std::size_t>(first())] = --lowest_;
    return first();
  }
  bool switches() override { return true; }
  bool resumes() override { return true; }

  reference read(execution const&, int, std::uint16_t, bool updates, std::vector<reference> const& allowed) override {
    constexpr unsigned one_in[] = {0, 16, 3};
    if (updates || staleness_ == 0 || random_() % one_in[staleness_] != 0) return allowed.back();
    return allowed[random_() % allowed.size()];
  }
  std::optional<std::size_t> write(execution const& e, int thread, std::uint16_t location, bool exclusive) override {
    auto const places = e.places(thread, e.modifications(location), location, exclusive);
    if (places.empty()) return {};
    return places.back();
  }

 private:
  static constexpr int changes = 4;

  std::mt19937_64 random_;
  std::vector<int> priority_;
  std::vector<std::size_t> change_at_;
  std::size_t steps_ = 0;
  std::size_t staleness_ = 0;
  int lowest_ = 0;
};

// Whether to go on.
bool count(result& to, execution& e, execution::ends how, bool& died) {
  died |= e.has_death();
  to.events = std::max<std::uint64_t>(to.events, e.added().size());
  switch (how) {
    case execution::ends::complete: ++to.complete; return true;
    case execution::ends::blocked: ++to.blocked; return true;
    case execution::ends::discarded: ++to.discarded; return true;
    case execution::ends::violation: break;
  }
  to.violation = e.violation();
  to.trace = e.trace();
  return false;
}

}  // namespace

result exhaustively(program const& p, change const& c) {
  result out;
  for (bool died = true; died && out.violation.empty();) {
    died = false;
    execution e(p, c, out.deaths);
    all_executions all;
    for (std::optional<script> from = script{}; from; from = all.next())
      if (!count(out, e, e.run(*from, all), died)) break;
    out.deaths += died;
    out.accesses.insert(e.accesses().begin(), e.accesses().end());
  }
  return out;
}

result at_random(program const& p, std::uint64_t seed, std::uint64_t executions, change const& c) {
  result out;
  execution e(p, c, std::numeric_limits<std::uint64_t>::max());
  bool died = false;
  for (std::uint64_t k = 0; k < executions; ++k) {
    random_execution one(seed + k, p.threads, out.events);
    if (count(out, e, e.run({}, one), died)) continue;
    out.violation += " (seed " + std::to_string(seed + k) + ")";
    break;
  }
  out.accesses = e.accesses();
  return out;
}

void fail(std::string const& what) { execution::running()->fail(what); }

void pause() { execution::running()->pause(); }

}  // namespace tutti::testing::explore
