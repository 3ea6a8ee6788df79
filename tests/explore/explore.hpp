// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface of the model checker: a program of a few threads that share memory, the ways to run it, and the result.
//
// The library is compiled as users compile it, only with the instrumentation of ThreadSanitizer: the compiler then calls a
// function for every access to memory, and hooks.cpp defines these functions. Accesses to shared memory become events of an
// execution; all others go ahead. So the library has no hooks, and none of its accesses can be forgotten.
//
// Reading order: event.hpp; execution.hpp, the memory model; search.cpp, the choice of executions; mailbox.cpp, a test.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tutti::testing::explore {

// Where an address lies: `field` is the same for all ranks and slots, `whole` is unique.
struct place_name {
  std::string field;
  std::string whole;
};

enum class access { load, store, update, plain_store, wake, fence };

// A deliberate change of the program, made by the hooks.
struct change {
  enum kinds {
    none,
    relax,   // the access is relaxed
    weaken,  // an access that is seq_cst is only acquire or release
    drop,    // a store, a wake-up or a fence does not take place; fences have no field
    delay,   // a store takes place after the thread's next store to the field `after`
    fence    // a seq_cst fence comes before a load or after a store
  } kind = none;
  std::string field{};
  access on = access::load;
  std::string after{};
};

// How a nap on a futex ends: once anything that the thread has polled changes, as if its time were up, or only by a wake-up.
enum class naps { end_in_time, end_by_wake_up };

// A thread that ends before one of its accesses to shared memory, as a process that is killed. Then `word`, which is part of
// the shared memory, becomes 1: the system's account of the process, which others read with lost().
struct death {
  int thread = -1;  // none
  std::atomic<std::uint32_t>* word = nullptr;
};
inline bool lost(std::atomic<std::uint32_t> const& word) { return word.load(std::memory_order_acquire) != 0; }

struct program {
  int threads = 0;
  // Memory whose accesses are explored. Each execution begins with the contents that it has now.
  std::vector<std::span<std::byte>> shared{};
  std::function<void()> set_up{};                 // before each execution, not explored
  std::function<void(int)> body{};                // of each thread
  std::function<void()> at_end{};                 // after each execution that all threads have completed, not explored
  std::function<place_name(void const*)> name{};  // of an address in shared memory
  naps how = naps::end_in_time;
  std::vector<change> changes{};  // of each execution
  death dies{};                   // before its first access, its second, and so on, and not at all
};

// An order that a field was accessed with.
struct ordered_access {
  std::string field;
  access on;
  int order;  // a std::memory_order
  auto operator<=>(ordered_access const&) const = default;
};

struct result {
  std::uint64_t complete = 0;   // executions that all threads completed
  std::uint64_t blocked = 0;    // that ended where a thread waits and has not yet seen the latest stores
  std::uint64_t discarded = 0;  // that the memory model does not allow, as was known only later
  std::uint64_t events = 0;     // in the longest
  std::uint64_t deaths = 0;     // accesses before which the thread that dies has died
  std::string violation{};      // empty: none was found
  std::string trace{};          // the execution that violates
  std::set<ordered_access> accesses{};
};

// All executions, each once; of a program with a thread that dies, for each access before which it dies.
result exhaustively(program const& p, change const& c = {});

// Executions with random schedules and reads. A violation tells the seed of its execution, with which it is repeated.
result at_random(program const& p, std::uint64_t seed, std::uint64_t executions, change const& c = {});

// -- Called by threads of the program.

// Ends the execution with a violation.
void fail(std::string const& what);
inline void expect(bool holds, char const* what) {
  if (!holds) fail(what);
}

// Suspends a thread whose poll has failed, until one of the locations that it has loaded since its last store has changed.
void pause();

// A poll that returns whether it has succeeded, and has no effects if it has not.
template <class Poll>
void wait_for(Poll&& poll) {
  while (!poll()) pause();
}

}  // namespace tutti::testing::explore
