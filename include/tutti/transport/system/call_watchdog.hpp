// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ends this process if a call of another library never returns: the MPI waits for ever for a process that has ended, and a thread cannot
// leave it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/process.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// Where a thread notes which call it is in. Threads that use the same note take turns.
class call_note {
 public:
  class scope {
   public:
    // `call`: a string literal.
    scope(call_note& note, char const* call) noexcept : note_(note) {
      note_.call_.store(call, std::memory_order_relaxed);
    }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope() { note_.call_.store(nullptr, std::memory_order_relaxed); }

   private:
    call_note& note_;
  };

  // Of the calls that follow: how long one may take, and who makes them.
  void set_terms(std::chrono::nanoseconds limit, std::source_location where) noexcept {
    limit_.store(limit, std::memory_order_relaxed);
    where_.store(where, std::memory_order_relaxed);
  }

 private:
  friend class call_watchdog;

  // The watchdog replaces the name by `seen`, which the next call overwrites. So a thread that is still in the same call is told from one
  // that makes many.
  static constexpr char seen[] = "";
  std::atomic<char const*> call_{nullptr};
  std::atomic<std::chrono::nanoseconds> limit_{};
  std::atomic<std::source_location> where_{};

  // Of the watchdog.
  char const* current_ = nullptr;  // the call that was replaced
  int looks_ = 0;                  // at this call
  int lost_ = -1;                  // the first peer whose end was seen meanwhile
  int looks_since_ = 0;
};

// Whether TUTTI_WATCHDOG lets the watchdog work. Throws error: bad_argument, if it is neither 0 nor 1.
[[gnu::cold]] bool wants_watchdog();

// What a communicator tells the watchdog.
class watched_calls {
 public:
  watched_calls() = default;
  watched_calls(watched_calls const&) = delete;
  watched_calls& operator=(watched_calls const&) = delete;
  ~watched_calls() {
    if (rank_ >= 0) stop();
  }

  // What a user can do about a call that takes longer than `limit`.
  static constexpr char const* raise_timeout = "find out what the MPI waits for, or raise TUTTI_TIMEOUT";

  // From here on, the watchdog looks at the notes, unless TUTTI_WATCHDOG=0. `way_out`: a string literal. Throws error: as
  // wants_watchdog.
  [[gnu::cold]] void start(int rank, std::chrono::nanoseconds limit, char const* way_out = raise_timeout);
  [[gnu::cold]] void add_peer(int peer, process_watch const& process);
  // Watches those peers of `other` that are among these, and no others, and numbers ranks as it does.
  [[gnu::cold]] void watch_as(watched_calls const& other, std::span<int const> peers);
  // What the error adds, see faults::numbering.
  [[gnu::cold]] void set_numbering(std::string text);
  // What the watchdog calls with its error before it ends the process, in a thread of its own; null: nothing.
  using record_function = std::function<void(std::string const& why)>;
  [[gnu::cold]] void set_record(record_function record);

  enum kinds : std::size_t { data, notices, collective };
  std::array<call_note, 3> notes{};

 private:
  friend class call_watchdog;
  [[gnu::cold]] void stop() noexcept;

  int rank_ = -1;  // -1: not watched
  char const* way_out_ = raise_timeout;
  std::string numbering_{};
  std::vector<std::pair<int, process_watch>> peers_{};
  record_function record_{};
};

// A thread of the process, which starts with the first calls to watch. It counts looks instead of reading a clock, so time in which the
// process is stopped does not count.
class call_watchdog {
 public:
  static constexpr std::chrono::milliseconds between_looks{500};
  // A call that takes this long although a peer has ended will not return.
  static constexpr int looks_after_loss = 4;
  // A call may take longer than its timeout while data flow, which nobody sees from outside of it.
  static constexpr std::chrono::nanoseconds limit_of(std::chrono::nanoseconds timeout) noexcept {
    return timeout < std::chrono::hours(100'000) ? 2 * timeout + std::chrono::seconds(10) : timeout;
  }

  // Of a call that does not wait, and moves no data of the program.
  static constexpr std::chrono::seconds limit_of_test{30};
  static constexpr char const* way_out_of_test =
      "this call should not wait, so check the output of the other ranks and of the MPI: a rank or a connection may be "
      "lost";

  static call_watchdog& of_process() noexcept;

  // Whether a communicator of this process has lost a rank. Then the last call of the library may wait for it, for no longer than this.
  // Without a loss it may wait for ranks that compute, for as long as they do.
  static inline std::atomic<bool> saw_loss{false};
  static constexpr std::chrono::seconds limit_after_loss{30};
  static constexpr char const* way_out_after_loss =
      "a rank of this job was lost, and this MPI may then never return from MPI_Finalize; set "
      "OMPI_MCA_async_mpi_finalize=1 if it is Open MPI";

  // The thread that hangs may hold a lock that a flight record needs. Then there is none.
  static constexpr std::chrono::seconds time_to_record{2};

 private:
  friend class watched_calls;
  friend class one_per_process<call_watchdog>;
  call_watchdog() = default;

  [[gnu::cold]] void add(watched_calls& calls);
  [[gnu::cold]] void remove(watched_calls& calls) noexcept;
  [[gnu::cold]] void look();
  [[gnu::cold]] static void look_at(watched_calls const& calls, call_note& note);
  [[noreturn, gnu::cold]] static void give_up(watched_calls const& calls, call_note const& note);
  [[gnu::cold]] static void record(watched_calls const& calls, std::string const& why);

  std::mutex busy_;
  std::vector<watched_calls*> all_;
  bool runs_ = false;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/call_watchdog_impl.hpp"
#endif
