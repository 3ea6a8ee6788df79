// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory model: definitions of execution.hpp that add events and compute views.
#include "explore/execution.hpp"

#include <algorithm>
#include <utility>

namespace tutti::testing::explore {

namespace {

// A thread that has made so many events waits without pause().
constexpr std::size_t most_events = 5000;

void write_memory(void* address, std::size_t bytes, std::uint64_t value) {
  switch (bytes) {
    case 1: *static_cast<std::uint8_t*>(address) = static_cast<std::uint8_t>(value); break;
    case 2: *static_cast<std::uint16_t*>(address) = static_cast<std::uint16_t>(value); break;
    case 4: *static_cast<std::uint32_t*>(address) = static_cast<std::uint32_t>(value); break;
    default: *static_cast<std::uint64_t*>(address) = value;
  }
}

}  // namespace

void execution::await_turn(event_kind kind, std::uint16_t location) {
  participant& own = self();
  if (own.events.size() > most_events) fail("a thread waits without a pause");
  if (scripted_event const* const given = scripted()) {
    if (given->kind != kind || given->location != location) fail("a thread does not repeat what it did before");
    while (!is_due(own)) own.body.suspend();
    return;
  }
  while (granted_ != current_) own.body.suspend();
  if (strategy_->switches()) granted_ = -1;
}

scripted_event const* execution::scripted() {
  participant const& own = self();
  return own.events.size() < own.script.size() ? &own.script[own.events.size()] : nullptr;
}

event& execution::append(event e) {
  participant& own = self();
  std::size_t const index = own.events.size();
  if (index < own.script.size()) {
    e.stamp = own.stamps[index];
  } else {
    e.stamp = next_stamp_++;
    added_.push_back({static_cast<std::uint16_t>(current_), static_cast<std::uint16_t>(index)});
  }
  auto const t = static_cast<std::size_t>(current_);
  own.before[t] = own.current.known[t] = static_cast<std::uint16_t>(index + 1);
  e.before = own.before;
  e.happens_before = own.current.known;
  own.events.push_back(std::move(e));
  return own.events.back();
}

std::uint64_t execution::load_event(std::uint16_t where, std::memory_order order, update_if updates,
                                    std::uint64_t expected, std::memory_order failure, bool& exclusive) {
  await_turn(event_kind::load, where);
  std::vector<reference> const allowed = readable(where);
  scripted_event const* const given = scripted();
  reference const from = given != nullptr
                             ? given->reads_from
                             : strategy_->read(*this, current_, where, updates != update_if::never, allowed);
  if (std::find(allowed.begin(), allowed.end(), from) == allowed.end()) discard();
  std::uint64_t const value = value_of(where, from);
  exclusive = updates == update_if::always || (updates == update_if::equal && value == expected);
  if (updates == update_if::equal && !exclusive) order = failure;
  participant& own = self();
  raise(own.current, where, from);
  if (!from.is_initial()) {
    event const& store = at(from);
    explore::join(own.before, store.before);
    if (acquires(order)) join(own.current, store.message);
    join(own.acquired, store.message);
  }
  if (shared_word const& here = locations_[where]; here.address != nullptr)
    check_race(here.address, here.bytes, {.writes = false, .atomic = true});
  append({.kind = event_kind::load,
          .exclusive = exclusive,
          .order = order,
          .location = where,
          .reads_from = from,
          .value = value});
  return value;
}

void execution::store_event(std::uint16_t where, std::uint64_t value, std::memory_order order, bool exclusive) {
  await_turn(event_kind::store, where);
  participant& own = self();
  shared_word& here = locations_[where];
  reference const me{static_cast<std::uint16_t>(current_), static_cast<std::uint16_t>(own.events.size())};
  if (scripted() == nullptr) {
    std::optional<std::size_t> const place = strategy_->write(*this, current_, where, exclusive);
    if (!place) discard();
    here.order.insert(here.order.begin() + static_cast<std::ptrdiff_t>(*place), me);
  } else {
    std::size_t const place = position(here.order, me);
    std::vector<reference> others = here.order;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(place - 1));
    auto const allowed = places(current_, others, where, exclusive);
    if (std::find(allowed.begin(), allowed.end(), place - 1) == allowed.end()) discard();
  }
  raise(own.current, where, me);
  if (here.address != nullptr) check_race(here.address, here.bytes, {.writes = true, .atomic = true});
  event& e =
      append({.kind = event_kind::store, .exclusive = exclusive, .order = order, .location = where, .value = value});
  e.message = releases(order) ? own.current : own.released;
  raise(e.message, where, me);
  if (exclusive)
    if (reference const read = own.events[me.index - 1u].reads_from; !read.is_initial())
      join(e.message, at(read).message);
  bool latest = here.address != nullptr;
  for (std::size_t p = position(here.order, me); p < here.order.size(); ++p)
    if (here.order[p].index < events_of(here.order[p].thread).size()) latest = false;
  if (!latest) return;
  write_memory(here.address, here.bytes, value);
}

void execution::fence_event(std::memory_order order) {
  await_turn(event_kind::fence, no_location);
  participant& own = self();
  if (acquires(order)) join(own.current, own.acquired);
  append({.kind = event_kind::fence, .order = order});
  if (releases(order)) own.released = own.current;
}

std::vector<reference> execution::readable(std::uint16_t where) const {
  std::vector<reference> const& order = locations_[where].order;
  std::vector<reference> out;
  std::size_t const first = position(order, floor(threads_[static_cast<std::size_t>(current_)], where));
  if (first == 0) out.push_back({});
  for (std::size_t p = first == 0 ? 1 : first; p <= order.size(); ++p) out.push_back(order[p - 1]);
  return out;
}

std::vector<std::size_t> execution::places(int thread, std::vector<reference> const& order, std::uint16_t location,
                                           bool exclusive) const {
  auto const& own = threads_[static_cast<std::size_t>(thread)];
  std::size_t const first = position(order, floor(own, location));
  std::size_t const last = exclusive ? first : order.size();
  std::vector<std::size_t> out;
  for (std::size_t p = first; p <= last; ++p)
    if (!is_read_by_update(order, p)) out.push_back(p);
  return out;
}

// Whether the store at this place belongs to a read-modify-write that has read the one before it.
bool execution::is_read_by_update(std::vector<reference> const& order, std::size_t place) const {
  if (place == order.size()) return false;
  reference const store = order[place], before = place == 0 ? reference{} : order[place - 1];
  participant const& other = threads_[store.thread];
  if (store.index < other.events.size())
    return at(store).exclusive && other.events[store.index - 1u].reads_from == before;
  return other.script[store.index].exclusive && other.script[store.index - 1u].reads_from == before;
}

prefix execution::before_next(int thread) const { return threads_[static_cast<std::size_t>(thread)].before; }

std::size_t execution::position(std::vector<reference> const& order, reference store) const {
  if (store.is_initial()) return 0;
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), store) - order.begin()) + 1;
}

reference execution::floor(participant const& t, std::uint16_t where) const {
  return where < t.current.floor.size() ? t.current.floor[where] : reference{};
}

std::uint64_t execution::value_of(std::uint16_t where, reference store) const {
  return store.is_initial() ? *locations_[where].initial : at(store).value;
}

void execution::raise(view& v, std::uint16_t where, reference store) const {
  if (store.is_initial()) return;
  if (v.floor.size() <= where) v.floor.resize(where + 1u);
  std::vector<reference> const& order = locations_[where].order;
  if (position(order, store) > position(order, v.floor[where])) v.floor[where] = store;
}

void execution::join(view& into, view const& other) const {
  explore::join(into.known, other.known);
  for (std::size_t l = 0; l < other.floor.size(); ++l) raise(into, static_cast<std::uint16_t>(l), other.floor[l]);
}

void execution::abandon() {
  while (true) self().body.suspend();
}

void execution::discard() {
  discarded_ = true;
  abandon();
}

void execution::fail(std::string const& what) {
  if (violation_.empty()) violation_ = what;
  if (current_ >= 0) abandon();
}

}  // namespace tutti::testing::explore
