// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small call between ranks with a core each uses shared memory only: it allocates nothing, takes no lock and makes no
// system call.
// labels: alone processes optimised unsanitized
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/replaced_new.hpp"
#include "support/sanitized.hpp"
#include "support/system_calls.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

struct counts {
  int allocations = 0;
  int locks = 0;
  int system_calls = 0;

  friend counts operator-(counts const& a, counts const& b) {
    return {a.allocations - b.allocations, a.locks - b.locks, a.system_calls - b.system_calls};
  }
};

// Of this process. The test has one thread.
counts seen;

}  // namespace

void tutti::testing::note_allocation(std::size_t) { ++seen.allocations; }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static auto const lock = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++seen.locks;
  return lock(mutex);
}

namespace {

// Counts a system call that the filter caught. The call is not made and seems to have returned 0.
void count_system_call(int, siginfo_t*, void* context) {
  ++seen.system_calls;
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RAX] = 0;
#elif defined(__aarch64__)
  machine.regs[0] = 0;
#endif
}

// From now on, counts system calls, except for those by which a rank ends and reports why.
bool count_system_calls() {
  struct sigaction caught{};
  caught.sa_sigaction = count_system_call;
  caught.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGSYS, &caught, nullptr) == 0 &&
         testing::filter_system_calls(
             {SYS_rt_sigreturn, SYS_exit_group, SYS_write, SYS_writev, SYS_getpid, SYS_munmap, SYS_close, SYS_madvise},
             SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP);
}

constexpr int ranks = 2;
constexpr int batches = 500;
constexpr int calls = 100;

// The counts of a rank, where its parent can read them.
struct report {
  counts batch[batches];
  counts control;
  bool counted;
};

struct small_call {
  char const* name;
  void (*make)(communicator<shm>&);
};

double one[1], other[1], many[ranks], more[ranks];

std::vector<small_call> const small_calls{
    {"all_reduce", [](auto& comm) { all_reduce(comm, one); }},
    {"reduce", [](auto& comm) { reduce(comm, one, sum{}, 1); }},
    {"broadcast", [](auto& comm) { broadcast(comm, one); }},
    {"reduce_scatter", [](auto& comm) { reduce_scatter(comm, many, one); }},
    {"all_gather", [](auto& comm) { all_gather(comm, one, many); }},
    {"gather", [](auto& comm) { gather(comm, one, many); }},
    {"scatter", [](auto& comm) { scatter(comm, many, one); }},
    {"all_to_all", [](auto& comm) { all_to_all(comm, many, more); }},
    {"scan", [](auto& comm) { scan(comm, one, other); }},
    {"exclusive_scan", [](auto& comm) { exclusive_scan(comm, one, other); }},
    {"barrier", [](auto& comm) { barrier(comm); }},
};

void be_quiet(communicator<shm>& comm, small_call const& call, report& mine) {
  for (int i = 0; i < 3; ++i) call.make(comm);  // makes the plan, and what is kept from call to call
  if (!count_system_calls()) return;
  for (counts& batch : mine.batch) {
    counts const before = seen;
    for (int i = 0; i < calls; ++i) call.make(comm);
    batch = seen - before;
  }
  counts const before = seen;
  std::mutex lock;
  std::scoped_lock const held(lock);
  ::operator delete(::operator new(8));
  ::sched_yield();
  mine.control = seen - before;
  mine.counted = true;
}

bool has_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= ranks;
}

}  // namespace

TEST_CASE("a small call makes no allocation, no lock and no system call") {
  if (testing::sanitized) {
    MESSAGE("skipped: sanitizers allocate and make system calls of their own");
    return;
  }
#if !defined(__x86_64__) && !defined(__aarch64__)
  MESSAGE("skipped: the register of a system call's result is known only for x86-64 and AArch64");
  return;
#endif
  if (!has_cores()) {
    MESSAGE("skipped: ranks that share a core yield to each other");
    return;
  }
  auto* const of = static_cast<report*>(
      ::mmap(nullptr, sizeof(report) * ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(of != MAP_FAILED);
  for (small_call const& call : small_calls) {
    CAPTURE(std::string(call.name));
    std::fill(of, of + ranks, report{});
    run_local(ranks, [&](auto& comm) { be_quiet(comm, call, of[comm.rank()]); });
    for (int r = 0; r < ranks; ++r) {
      CAPTURE(r);
      if (!of[r].counted) {
        MESSAGE("skipped: the system does not accept filters of system calls");
        return;
      }
      CHECK(of[r].control.allocations == 1);
      CHECK(of[r].control.locks == 1);
      CHECK(of[r].control.system_calls == 1);
      CHECK(std::ranges::all_of(of[r].batch, [](counts const& c) { return c.allocations == 0 && c.locks == 0; }));
      // A rank whose peer lost its core for a while yields its own, which may affect half of the batches.
      std::ranges::nth_element(of[r].batch, of[r].batch + batches / 2, {}, &counts::system_calls);
      CHECK(of[r].batch[batches / 2].system_calls == 0);
    }
  }
  ::munmap(of, sizeof(report) * ranks);
}
