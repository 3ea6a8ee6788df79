// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One execution of a program: its threads as fibers, and the memory model that decides which stores a load may return.
//
// The model is that of C++ as repaired by RC11 (Lahav et al., PLDI 2017): a load returns any store that coherence and
// happens-before allow, but none that depends on the load itself. Each thread has a view, the events that happen before its
// next one and the latest store of each location among them. A release store carries the view of its thread as a message, which
// a load that acquires it joins to its own. What seq_cst adds is checked at the end, by total_order.hpp.
//
// Events come first from a script, an earlier execution's prefix, and from then on from the strategy's choices. Threads run in
// any order that has each store before the loads that return it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "explore/event.hpp"
#include "explore/explore.hpp"
#include "explore/fiber.hpp"
#include "explore/memory.hpp"

namespace tutti::testing::explore {

class execution;

// Makes the choices that an execution leaves open.
class strategy {
 public:
  virtual ~strategy() = default;
  // Of the threads that can run, which has the next event? It continues until switches() or until it cannot.
  virtual int next_thread(std::vector<int> const& can_run) = 0;
  virtual bool switches() = 0;
  // The store that a new load returns: one of `allowed`, which are in modification order. `updates`: a store may follow it.
  virtual reference read(execution const& e, int thread, std::uint16_t location, bool updates,
                         std::vector<reference> const& allowed) = 0;
  // The place of a new store in modification order; none if the execution must not go on.
  virtual std::optional<std::size_t> write(execution const& e, int thread, std::uint16_t location, bool exclusive) = 0;
  // Whether a thread that waits goes on in this execution once a location that it polls has changed.
  virtual bool resumes() = 0;
};

// How a load may be the first half of a read-modify-write: never, always, or if it returns the expected value.
enum class update_if { never, always, equal };

class execution {
 public:
  // `last_access`: how many accesses the thread that dies makes before.
  explicit execution(program const& p, change const& c, std::uint64_t last_access);
  execution(execution const&) = delete;
  execution& operator=(execution const&) = delete;
  ~execution() { memory_.restore(); }

  // Runs the program, following the script and then the strategy.
  enum class ends { complete, blocked, discarded, violation };
  ends run(script const& given, strategy& how);

  std::string const& violation() const { return violation_; }
  // Whether the thread that dies has died in the last run.
  bool has_death() const;
  std::string trace();
  std::set<ordered_access> const& accesses() const { return accesses_; }

  // -- The events so far, for strategies.
  std::vector<reference> const& added() const { return added_; }  // in the order in which they were added
  event const& at(reference r) const { return threads_[r.thread].events[r.index]; }
  std::vector<event> const& events_of(int thread) const { return threads_[static_cast<std::size_t>(thread)].events; }
  int threads() const { return program_.threads; }
  std::size_t locations() const { return locations_.size(); }
  std::vector<reference> const& modifications(std::uint16_t location) const { return locations_[location].order; }
  // The events that the next event of a thread depends on.
  prefix before_next(int thread) const;
  // Where in this modification order the thread's next store may be inserted: after the stores that it knows, the
  // store of a read-modify-write right after the one that it has read, and none between two such.
  std::vector<std::size_t> places(int thread, std::vector<reference> const& order, std::uint16_t location,
                                  bool exclusive) const;

  // -- Called by hooks, in a thread of the program.
  bool is_shared(void const* address, std::size_t bytes) const;
  std::uint64_t load(void const* address, std::size_t bytes, std::memory_order order);
  void store(void* address, std::size_t bytes, std::uint64_t value, std::memory_order order);
  // Returns the value before. `next` computes the new value from it.
  std::uint64_t update(void* address, std::size_t bytes, std::memory_order order,
                       std::function<std::uint64_t(std::uint64_t)> const& next);
  // Returns the value before; it was replaced if that is `expected`.
  std::uint64_t compare_exchange(void* address, std::size_t bytes, std::uint64_t expected, std::uint64_t desired,
                                 std::memory_order order, std::memory_order failure);
  void fence(std::memory_order order);
  void plain(void const* address, std::size_t bytes, bool writes);
  void wait_on_futex(void* address, std::uint32_t expected);
  void wake_on_futex(void* address);
  void pause();
  void fail(std::string const& what);

  // The execution, if the caller is one of its threads.
  static execution* of_this_thread() { return running_ != nullptr && running_->current_ >= 0 ? running_ : nullptr; }
  static execution* running() { return running_; }

 private:
  struct shared_word {
    void* address;  // null for the sleepers on a futex
    std::size_t bytes;
    place_name name;
    std::vector<reference> order{};  // modification order
    std::optional<std::uint64_t> initial{};
  };
  struct held_store {
    void* address;
    std::size_t bytes;
    std::uint64_t value;
    std::memory_order order;
    std::string after;
    bool plain;
  };
  struct participant {
    fiber body{};
    std::vector<event> events{};
    std::vector<scripted_event> script{};
    std::vector<std::uint32_t> stamps{};
    prefix before{};                 // what its next event depends on
    view current{};                  // what happens before its next event
    view acquired{};                 // and what will after a fence that acquires
    view released{};                 // what its relaxed stores carry: its view at the last fence that releases
    std::vector<held_store> held{};  // stores that a planted mistake delays
    bool blocked = false;
    bool dead = false;
    std::uint64_t accesses = 0;
    std::size_t polled = 0;  // the first event that the poll that failed may have loaded
  };

  participant& self() { return threads_[static_cast<std::size_t>(current_)]; }

  // -- Accesses, deaths and planted mistakes: accesses.cpp.
  void count_access();
  std::uint16_t location_of(void const* address, std::size_t bytes);
  std::uint16_t queue_of(void const* futex);
  std::string const& field_of(void const* address);
  void check_race(void const* address, std::size_t bytes, memory::manner how);
  change const* find_change(change::kinds kind, access on, std::string const& field) const;
  std::memory_order adjusted(access on, std::uint16_t where, std::memory_order order);
  void release_held(std::string const& field);

  // -- Running: execution.cpp.
  void load_script(script const& given);
  void schedule(strategy& how);
  bool is_due(participant const& t) const;
  int pending_update() const;
  // Whether the poll that failed last has seen the latest stores.
  bool is_current(participant const& t) const;
  void run_thread(int number, bool adds_events);
  ends end();

  // -- Events: events.cpp.
  // Suspends the thread until it is its turn to add an event.
  void await_turn(event_kind kind, std::uint16_t location);
  scripted_event const* scripted();
  event& append(event e);
  [[noreturn]] void abandon();
  [[noreturn]] void discard();

  std::uint64_t load_event(std::uint16_t where, std::memory_order order, update_if updates, std::uint64_t expected,
                           std::memory_order failure, bool& exclusive);
  void store_event(std::uint16_t where, std::uint64_t value, std::memory_order order, bool exclusive);
  void fence_event(std::memory_order order);
  std::size_t position(std::vector<reference> const& order, reference store) const;
  reference floor(participant const& t, std::uint16_t where) const;
  std::vector<reference> readable(std::uint16_t where) const;
  std::uint64_t value_of(std::uint16_t where, reference store) const;
  void raise(view& v, std::uint16_t where, reference store) const;
  void join(view& into, view const& other) const;
  bool is_read_by_update(std::vector<reference> const& order, std::size_t place) const;
  std::string describe(reference r);

  static execution* running_;

  program const& program_;
  std::vector<change> changes_;
  std::uint64_t last_access_;
  strategy* strategy_ = nullptr;
  std::vector<participant> threads_;
  std::deque<shared_word> locations_;
  std::unordered_map<void const*, std::uint16_t> numbers_;
  std::unordered_map<void const*, std::string> fields_;
  memory memory_;
  std::vector<reference> added_;
  std::uint32_t next_stamp_ = 0;
  int current_ = -1;  // the thread that runs
  int granted_ = -1;  // the thread that may add events that are not in the script
  bool discarded_ = false;
  std::string violation_;
  std::set<ordered_access> accesses_;
};

}  // namespace tutti::testing::explore
