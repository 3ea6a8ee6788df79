// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of execution.hpp that turn accesses of the program into events, and change them on purpose.
#include "explore/execution.hpp"

#include <utility>

namespace tutti::testing::explore {

namespace {

std::uint64_t read_memory(void const* address, std::size_t bytes) {
  switch (bytes) {
    case 1: return *static_cast<std::uint8_t const*>(address);
    case 2: return *static_cast<std::uint16_t const*>(address);
    case 4: return *static_cast<std::uint32_t const*>(address);
    default: return *static_cast<std::uint64_t const*>(address);
  }
}

std::memory_order without_total_order(access on) {
  return on == access::load    ? std::memory_order_acquire
         : on == access::store ? std::memory_order_release
                               : std::memory_order_acq_rel;
}

}  // namespace

bool execution::is_shared(void const* address, std::size_t bytes) const {
  auto const* const begin = static_cast<std::byte const*>(address);
  for (auto const& part : program_.shared)
    if (begin >= part.data() && begin + bytes <= part.data() + part.size()) return true;
  return false;
}

std::uint16_t execution::location_of(void const* address, std::size_t bytes) {
  auto const [found, is_new] = numbers_.try_emplace(address, static_cast<std::uint16_t>(locations_.size()));
  if (is_new) locations_.push_back({const_cast<void*>(address), bytes, program_.name(address)});
  shared_word& here = locations_[found->second];
  if (here.bytes != bytes) fail(here.name.whole + " is accessed by different numbers of bytes");
  if (!here.initial) here.initial = read_memory(address, bytes);
  return found->second;
}

std::uint16_t execution::queue_of(void const* futex) {
  // Within the futex, where no other location begins.
  auto const [found, is_new] =
      numbers_.try_emplace(static_cast<std::byte const*>(futex) + 1, static_cast<std::uint16_t>(locations_.size()));
  if (is_new) {
    place_name const name = program_.name(futex);
    locations_.push_back({nullptr, 0, {name.field, "the sleepers on " + name.whole}});
  }
  locations_[found->second].initial = 0;
  return found->second;
}

std::string const& execution::field_of(void const* address) {
  auto const [found, is_new] = fields_.try_emplace(address);
  if (is_new) found->second = program_.name(address).field;
  return found->second;
}

std::memory_order execution::adjusted(access on, std::uint16_t where, std::memory_order order) {
  std::string const& field = locations_[where].name.field;
  accesses_.insert({field, on, static_cast<int>(order)});
  if (find_change(change::relax, on, field)) return std::memory_order_relaxed;
  if (order == std::memory_order_seq_cst && find_change(change::weaken, on, field)) return without_total_order(on);
  return order;
}

change const* execution::find_change(change::kinds kind, access on, std::string const& field) const {
  for (change const& c : changes_)
    if (c.kind == kind && c.on == on && c.field == field) return &c;
  return nullptr;
}

// A thread dies between two accesses: stores that a planted mistake has delayed never take place.
void execution::count_access() {
  participant& own = self();
  if (current_ != program_.dies.thread || own.accesses++ != last_access_) return;
  auto& word = *program_.dies.word;
  store_event(location_of(&word, sizeof word), 1, std::memory_order_release, false);
  own.dead = true;
  abandon();
}

std::uint64_t execution::load(void const* address, std::size_t bytes, std::memory_order order) {
  count_access();
  std::uint16_t const where = location_of(address, bytes);
  if (find_change(change::fence, access::load, locations_[where].name.field)) fence_event(std::memory_order_seq_cst);
  bool exclusive = false;
  return load_event(where, adjusted(access::load, where, order), update_if::never, 0, order, exclusive);
}

void execution::store(void* address, std::size_t bytes, std::uint64_t value, std::memory_order order) {
  count_access();
  std::uint16_t const where = location_of(address, bytes);
  std::string const& field = locations_[where].name.field;
  order = adjusted(access::store, where, order);
  if (find_change(change::drop, access::store, field)) return;
  if (change const* const c = find_change(change::delay, access::store, field)) {
    self().held.push_back({address, bytes, value, order, c->after, false});
    return;
  }
  store_event(where, value, order, false);
  if (find_change(change::fence, access::store, field)) fence_event(std::memory_order_seq_cst);
  release_held(field);
}

void execution::release_held(std::string const& field) {
  participant& own = self();
  for (held_store const& h : std::exchange(own.held, {})) {
    if (!field.empty() && field != h.after) own.held.push_back(h);
    else if (h.plain) check_race(h.address, h.bytes, {.writes = true, .atomic = false});
    else store_event(location_of(h.address, h.bytes), h.value, h.order, false);
  }
}

std::uint64_t execution::update(void* address, std::size_t bytes, std::memory_order order,
                                std::function<std::uint64_t(std::uint64_t)> const& next) {
  count_access();
  std::uint16_t const where = location_of(address, bytes);
  order = adjusted(access::update, where, order);
  bool const dropped = find_change(change::drop, access::update, locations_[where].name.field) != nullptr;
  bool exclusive = false;
  std::uint64_t const before =
      load_event(where, order, dropped ? update_if::never : update_if::always, 0, order, exclusive);
  if (exclusive) store_event(where, next(before), order, true);
  return before;
}

std::uint64_t execution::compare_exchange(void* address, std::size_t bytes, std::uint64_t expected,
                                          std::uint64_t desired, std::memory_order order, std::memory_order failure) {
  count_access();
  std::uint16_t const where = location_of(address, bytes);
  std::memory_order const asked = order;
  order = adjusted(access::update, where, order);
  if (order != asked) failure = order == std::memory_order_relaxed ? order : std::memory_order_acquire;
  bool exclusive = false;
  std::uint64_t const before = load_event(where, order, update_if::equal, expected, failure, exclusive);
  if (exclusive) store_event(where, desired, order, true);
  return before;
}

void execution::fence(std::memory_order order) {
  if (!find_change(change::drop, access::fence, {})) fence_event(order);
}

void execution::check_race(void const* address, std::size_t bytes, memory::manner how) {
  if (memory_.races(address, bytes, how, current_, self().current.known))
    fail(std::string("data race: ") + (how.writes ? "a write to " : "a read of ") + program_.name(address).whole +
         " by thread " + std::to_string(current_));
}

void execution::plain(void const* address, std::size_t bytes, bool writes) {
  count_access();
  check_race(address, bytes, {.writes = writes, .atomic = false});
  if (!writes) return;
  if (change const* const c = find_change(change::delay, access::plain_store, field_of(address)))
    self().held.push_back({const_cast<void*>(address), bytes, 0, std::memory_order_relaxed, c->after, true});
}

// The kernel compares the word and queues the thread under a lock that a wake-up takes too. So both are read-modify-writes of a
// count of wake-ups: one that comes later is seen by the sleeper, and the caller of one that came before has changed the word.
void execution::wait_on_futex(void* address, std::uint32_t expected) {
  if (program_.how == naps::end_in_time) return pause();
  bool exclusive = false;
  std::uint16_t const queue = queue_of(address);
  std::uint64_t const before =
      load_event(queue, std::memory_order_acq_rel, update_if::always, 0, std::memory_order_relaxed, exclusive);
  store_event(queue, before, std::memory_order_acq_rel, true);
  if (load(address, sizeof expected, std::memory_order_relaxed) != expected) return;
  self().polled = self().events.size();
  while (load_event(queue, std::memory_order_acquire, update_if::never, 0, std::memory_order_relaxed, exclusive) ==
         before)
    pause();
}

void execution::wake_on_futex(void* address) {
  if (program_.how == naps::end_in_time) return;
  std::uint16_t const queue = queue_of(address);
  if (find_change(change::drop, access::wake, locations_[queue].name.field)) return;
  bool exclusive = false;
  std::uint64_t const before =
      load_event(queue, std::memory_order_acq_rel, update_if::always, 0, std::memory_order_relaxed, exclusive);
  store_event(queue, before + 1, std::memory_order_acq_rel, true);
}

void execution::pause() {
  participant& own = self();
  own.blocked = true;
  own.body.suspend();
  own.polled = own.events.size();
}

}  // namespace tutti::testing::explore
