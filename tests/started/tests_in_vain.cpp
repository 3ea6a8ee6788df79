// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of tests without success leave the core to others, and a progress_thread sleeps while nothing moves.
// labels: alone unsanitized
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

thread_local int own_yields = 0;
// Of the progress_thread.
std::atomic<int> yields{0}, rests{0}, naps{0};

void count(std::atomic<int>& calls) {
  if (in_progress_thread) ++calls;
}

// Waits until the counter has grown by this much, or for half a minute. Does not wait in tutti, and does not yield.
bool grows(std::atomic<int> const& counter, int by) {
  int const before = counter;
  for (int i = 0; i < 300'000 && counter - before < by; ++i) ::usleep(100);
  return counter - before >= by;
}

}  // namespace

// In place of those of the C library.
extern "C" {
int sched_yield() noexcept {
  ++own_yields;
  count(yields);
  return static_cast<int>(::syscall(SYS_sched_yield));
}
int nanosleep(timespec const* time, timespec* rest) {
  count(rests);
  return static_cast<int>(::syscall(SYS_nanosleep, time, rest));
}
int pthread_cond_clockwait(pthread_cond_t* changed, pthread_mutex_t* lock, clockid_t clock, timespec const* until) {
  using function = int(pthread_cond_t*, pthread_mutex_t*, clockid_t, timespec const*);
  static auto* const real = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  count(naps);
  return real(changed, lock, clock, until);
}
}

namespace {

// Lets the other rank go on, also if an expectation fails.
struct release {
  std::atomic<bool>& other;
  ~release() {
    other = true;
    other.notify_all();
  }
};

// `look` looks for something that has not happened, as often as a wait would spin, and then a hundred times. The first look may
// make progress, which starts the count anew.
template <class Comm, class F>
void check_yields(Comm& comm, F const& look, std::string const& what) {
  patience const how = comm.engine().transport().waits();
  look();
  own_yields = 0;
  // A rank that was seen on this core ends the spinning early.
  int const certain = how.share_core == nullptr ? how.spins : std::min(how.spins, spins_before_asking);
  for (int i = 1; i < certain; ++i) look();
  expect(own_yields == 0, what + " yields before a wait would");
  for (int i = certain; i <= how.spins; ++i) look();
  own_yields = 0;
  for (int i = 0; i < 100; ++i) look();
  expect(own_yields == 100, what + " yielded " + std::to_string(own_yields) + " times in 100 tests");
}

}  // namespace

TEST_CASE("after as many tests in vain as a wait would spin, each leaves the core to others") {
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> looked = false;
    run_threads(2, [&](auto& comm) {
      std::vector<int> data(1, 1);
      if (comm.rank() == 1) {
        looked.wait(false);
        if (round == 0) all_reduce(comm, data);
        else send(comm, data, 0);
        return;
      }
      std::optional<release> at_end{looked};
      int got = 0;
      work pending;
      if (round == 0) pending = all_reduce(async(comm), data);
      if (round == 1) pending = irecv(comm, std::span(&got, 1), 1);
      auto const test = [&] { expect(!pending.test(), "what nobody did has ended"); };
      auto const probe = [&] { expect(!iprobe(comm, 1), "what nobody sent has arrived"); };
      if (round < 2) check_yields(comm, test, "test()");
      else check_yields(comm, probe, "iprobe()");
      at_end.reset();
      pending.wait();
      if (round == 2) recv(comm, std::span(&got, 1), 1);
    });
  }
}

TEST_CASE("a progress_thread sleeps between looks while nothing moves, and longer after a while") {
  std::atomic<bool> looked = false;
  run_threads(2, [&](auto& comm) {
    int sent = 1, got = 0;
    if (comm.rank() == 1) {
      looked.wait(false);
      send(comm, std::span(&sent, 1), 0);
      return;
    }
    std::optional<release> at_end{looked};
    progress_thread const beside;
    work pending = irecv(comm, std::span(&got, 1), 1);
    bool const rested = grows(rests, 500);  // it yields at first
    int const yielded = yields, looks = rests;
    bool const rests_on = grows(rests, 500), yields_no_more = yields == yielded;
    bool const napped = grows(naps, 20);
    int const before = rests;
    bool const naps_on = grows(naps, 20), rests_no_more = rests == before;
    at_end.reset();
    pending.wait();
    expect(rested && rests_on && yields_no_more, "it does not sleep");
    expect(napped && naps_on && rests_no_more && before > looks, "it does not sleep longer");
    expect(got == 1, "another message");
  });
}
