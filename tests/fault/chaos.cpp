// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that have operations in flight are stopped, killed (by the system for lack of memory, too), replaced by another
// program and forked, lose their array, or get no more memory, at random moments, in processes that may be refused system calls, with process namespaces of their own or
// no room in /dev/shm, and beside another job. Every result is exact or an error; the error is the same on all other ranks
// and names the guilty one, nothing waits past its deadline, and the survivors go on without it.
// TUTTI_TEST_SEED is the first seed, TUTTI_TEST_CHAOS the number of seeds; a failure prints its own. TUTTI_TEST_OPERATIONS is
// the number of operations of a job that loses no rank; the longer it is, the more often ranks are stopped and fork. TUTTI_TEST_STOP is
// for how many seconds all ranks are stopped, or one for longer than the timeout.
// labels: processes alone waits optimised native
// timeout: 300
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fault/random_traffic.hpp"
#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/full_shared_files.hpp"
#include "support/held_by_process.hpp"
#include "support/memory_group.hpp"
#include "support/system_calls.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

enum class mishap { none, one_stopped, all_stopped, forks, stopped_too_long, killed, replaced, unmaps, starved };
constexpr std::array<char const*, 9> mishap_names{"nothing happens",
                                                  "a rank is stopped for a moment",
                                                  "all ranks are stopped for longer than the timeout",
                                                  "a rank forks",
                                                  "a rank is stopped for longer than the timeout",
                                                  "a rank is killed",
                                                  "a rank becomes another program",
                                                  "a rank unmaps its array during a call",
                                                  "a rank gets no more memory"};

int number_in(char const* variable, int otherwise) {
  char const* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// What happens to a job. All of it follows from the seed, and its processes know it.
struct fate {
  unsigned seed;
  int operations;
  int ranks, victim;
  mishap what;
  std::chrono::microseconds after;
  bool refuse_handles, refuse_reading;  // by the system, to the rank after the victim
  bool beside_others;                   // another job runs at the same time
  bool apart;                           // each rank has a process namespace of its own, and cannot see the others
  bool takes_too_much;  // the system kills the victim, because it takes more memory than its group may have
  bool read_only;       // /dev/shm, which is full
  std::chrono::milliseconds stop;
  bool fatal() const { return what >= mishap::stopped_too_long; }
  bool ends_victim() const { return what == mishap::killed || what == mishap::replaced; }
  bool hangs() const { return what == mishap::stopped_too_long; }
  std::chrono::seconds timeout() const { return what == mishap::all_stopped || hangs() ? 2s : 10s; }
  // What the other ranks are told.
  bool explains(error_code code) const {
    if (hangs()) return code == error_code::timeout;
    if (what == mishap::starved) return code == error_code::rank_left;
    // Whoever is first: a peer that reads the array, or the victim, which then ends.
    if (what == mishap::unmaps && code == error_code::system) return true;
    return code == error_code::rank_lost;
  }

  // How often the same happens again.
  int repeats() const { return std::max(1, operations / 400); }

  static fate of(unsigned seed, int operations) {
    std::mt19937 random(seed);
    auto const below = [&](unsigned n) { return static_cast<int>(random() % n); };
    fate out{};
    out.seed = seed;
    out.operations = operations;
    out.what = static_cast<mishap>(seed % mishap_names.size());
    out.ranks = 2 + below(4);
    out.victim = below(static_cast<unsigned>(out.ranks));
    out.after = std::chrono::microseconds(below(50'000));
    out.refuse_handles = below(4) == 0;
    out.refuse_reading = below(4) == 0;
    out.beside_others = below(4) == 0;
    out.apart = below(4) == 0 && ::geteuid() == 0;
    out.takes_too_much = out.what == mishap::killed && below(2) == 0;
    out.read_only = below(2) == 0;
    out.stop = std::chrono::seconds(number_in("TUTTI_TEST_STOP", out.what == mishap::all_stopped ? 3 : 5));
    if (out.what == mishap::one_stopped) out.stop = std::chrono::milliseconds(1 + below(200));
    return out;
  }
};

// A call during which the victim's array vanishes.
template <class Comm>
void lose_array(Comm& comm, int victim) {
  constexpr std::size_t bytes = 1 << 20;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  expect(memory != MAP_FAILED, "no memory");
  work sum = all_reduce(async(comm), std::span(static_cast<int*>(memory), bytes / sizeof(int)));
  if (comm.rank() == victim) ::munmap(memory, bytes);
  sum.wait();
  if (comm.rank() != victim) ::munmap(memory, bytes);
}

constexpr std::size_t memory_of_group = std::size_t{32} << 20;

// Becomes another program, forks, or takes too much memory, while this rank's operations go on.
void disturb_itself(fate const& f, memory_group* group) {
  std::this_thread::sleep_for(f.after);
  if (group != nullptr && group->enter()) take_memory(2 * memory_of_group);
  if (f.what == mishap::replaced) ::execl("/bin/true", "true", static_cast<char*>(nullptr));
  for (int i = 0; i < 20 * f.repeats(); ++i) {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
}

// Leaves this process no more address space than it has, and a few pages for the text of errors.
void stop_growth() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlim_t const bytes = (pages + 64) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  rlimit const limit{bytes, bytes};
  expect(::setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
}

// The error of a rank, for the process that has started it.
struct verdict {
  int code, peer;
  long operations;
};

// `ready` is closed once this rank's operations begin.
void be_rank(fate const& f, int rank, int ready, memory_group* group, verdict& said) {
  full_shared_files const full(f.read_only);  // nothing may need room there
  if (rank == (f.victim + 1) % f.ranks) {
    if (f.refuse_handles)
      expect(filter_system_calls({SYS_pidfd_open}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), "no filter");
    if (f.refuse_reading)
      expect(filter_system_calls({SYS_process_vm_readv}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), "no filter");
  }
  auto comm = init();
  random_traffic all(comm, f.seed);
  barrier(comm);
  ::close(ready);
  std::jthread disturbance;
  if (rank == f.victim && (f.what == mishap::replaced || f.what == mishap::forks || group != nullptr))
    disturbance = std::jthread([&] { disturb_itself(f, group); });
  auto last = deadline::clock::now();
  try {
    for (int i = 0; f.fatal() || i < f.operations; ++i) {
      said.operations = i + 1;
      last = deadline::clock::now();
      if (f.what == mishap::starved && rank == f.victim && i == 20) stop_growth();
      if (f.what == mishap::unmaps && f.after < i * 1ms) lose_array(comm, f.victim);
      else all.step();
    }
    all.end_all();
    return;
  } catch (error const& e) {
    if (!f.fatal()) throw;
    if (rank == f.victim) {
      if (f.hangs()) expect_error(error_of([&] { return comm.shrink(); }), error_code::excluded, "was excluded");
      return;
    }
    said.code = static_cast<int>(e.code()), said.peer = e.peer();
    bool const nameless = f.hangs() && f.apart && e.peer() == -1;  // stopped within a call, which nobody sees
    if (!f.explains(e.code()) || (e.peer() != f.victim && !nameless)) throw;
    expect(deadline::clock::now() - last < f.timeout() + 5s, "the error came after the deadline");
    bool const named = e.happened().find("is stopped, by a signal or a debugger") != std::string::npos;
    if (named != (f.hangs() && !f.apart)) throw;
  } catch (std::bad_alloc const&) {
    expect(f.what == mishap::starved && rank == f.victim, "no memory");
    return all.abandon();
  }
  if (!f.ends_victim() && !f.hangs()) return;
  auto rest = f.hangs() ? comm.shrink({.exclude_after = 1s}) : comm.shrink();
  expect(rest.size() == f.ranks - 1, "somebody else is lost");
  std::vector<int> ones(1000, 1);
  all_reduce(rest, ones);
  expect(ones.back() == rest.size(), "the survivors' sum is wrong");
}

// The same. Whatever has happened, a rank that is left holds no memory or files of its communicators in the end; rank 0 keeps the job's name.
void be_rank_and_leave_nothing(fate const& f, int rank, int ready, memory_group* group, verdict& said) {
  auto const files = open_files();
  be_rank(f, rank, ready, group, said);
  if (f.what == mishap::starved && rank == f.victim) return;                  // it has no memory to look
  expect(segments() == 1, "shared memory is left");                           // but for the page of uncaught errors
  expect(open_files() - (rank == 0 ? 1 : 0) < files, "files are left open");  // `ready` is closed
}

void stop_and_resume(std::vector<pid_t> const& ranks, std::chrono::milliseconds time) {
  for (pid_t const process : ranks) ::kill(process, SIGSTOP);
  std::this_thread::sleep_for(time);
  for (pid_t const process : ranks) ::kill(process, SIGCONT);
}

// Another job of the same user, which nothing happens to.
void be_other_job(unsigned seed) {
  auto comm = init();
  random_traffic all(comm, seed);
  for (int i = 0; i < 100; ++i) all.step();
  all.end_all();
}

// What all survivors were told must be the same.
std::string differences(fate const& f, std::span<verdict const> all) {
  if (!f.fatal()) return "";
  verdict const& one = all[static_cast<std::size_t>(f.victim == 0)];
  for (int r = 0; r < f.ranks; ++r)
    if (verdict const& v = all[static_cast<std::size_t>(r)];
        r != f.victim && (v.code != one.code || v.peer != one.peer))
      return " ranks were told different things;";
  return "";
}

// Forks a rank, in a process namespace of its own if `apart`.
template <class Body>
pid_t fork_apart(bool apart, std::string const& job, int rank, int size, std::string const& timeout, Body const& body) {
  if (!apart) return fork_rank(job, rank, size, timeout, body);
  descriptor const own(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  REQUIRE(::unshare(CLONE_NEWPID) == 0);  // of children
  pid_t const out = fork_rank(job, rank, size, timeout, body);
  REQUIRE(::setns(own.get(), CLONE_NEWPID) == 0);
  return out;
}

// Adds to `operations` those that the ranks had begun together.
std::string run(fate const& f, long& operations) {
  std::string const job = "chaos-" + std::to_string(::getpid()) + "-" + std::to_string(f.seed);
  shared_with_forks<verdict> const said(static_cast<std::size_t>(f.ranks));
  std::optional<memory_group> group;
  if (f.takes_too_much) group.emplace(memory_of_group);
  if (group && !group->refusal().empty()) {
    MESSAGE("killed by a signal instead, because no memory can be limited here: ", group->refusal());
    group.reset();
  }
  std::array<int, 2> all_ready{};
  REQUIRE(::pipe2(all_ready.data(), O_CLOEXEC) == 0);
  std::vector<pid_t> ranks;
  for (int r = 0; r < f.ranks; ++r)
    ranks.push_back(fork_apart(f.apart, job, r, f.ranks, std::to_string(f.timeout().count()), [&] {
      if (f.what == mishap::unmaps) std::signal(SIGSEGV, SIG_DFL);
      be_rank_and_leave_nothing(f, r, all_ready[1], group ? &*group : nullptr, said[static_cast<std::size_t>(r)]);
    }));
  ::close(all_ready[1]);
  std::vector<pid_t> others;
  for (int r = 0; f.beside_others && r < 2; ++r)
    others.push_back(fork_rank(job + "-beside", r, 2, "20", [&] { be_other_job(f.seed); }));
  char none = 0;
  static_cast<void>(::read(all_ready[0], &none, 1));  // ends once all ranks have closed it, or have ended
  ::close(all_ready[0]);
  pid_t const victim = ranks[static_cast<std::size_t>(f.victim)];
  std::this_thread::sleep_for(f.after);
  if (f.what == mishap::killed && !group) ::kill(victim, SIGKILL);
  if (f.what == mishap::stopped_too_long) stop_and_resume({victim}, f.stop);
  for (int i = 0; f.what == mishap::one_stopped && i < f.repeats(); ++i) {
    stop_and_resume({victim}, f.stop);
    std::this_thread::sleep_for(f.after);
  }
  if (f.what == mishap::all_stopped) stop_and_resume(ranks, f.stop);
  std::string const wrong = end_of_ranks(ranks, 30s * f.repeats(), [&](int r, int status) {
    if (r != f.victim) return status == 0;
    if (f.what == mishap::unmaps) return status == 0 || WIFSIGNALED(status);
    return f.what == mishap::killed ? was_killed(status) : status == 0;
  });
  std::string const wrong_beside = end_of_ranks(others, 30s, [](int, int status) { return status == 0; });
  operations += std::ranges::min(said.all(), {}, &verdict::operations).operations;
  return wrong + wrong_beside + differences(f, said.all());
}

}  // namespace

TEST_CASE("whatever happens to one rank or to all, results are exact or errors name the guilty rank") {
  int const first = number_in("TUTTI_TEST_SEED", 1), runs = number_in("TUTTI_TEST_CHAOS", 18),
            operations = number_in("TUTTI_TEST_OPERATIONS", 400);
  long total = 0;
  for (int seed = first; seed < first + runs; ++seed) {
    fate const f = fate::of(static_cast<unsigned>(seed), operations);
    std::string const what = mishap_names[static_cast<std::size_t>(f.what)], wrong = run(f, total);
    CAPTURE(seed);
    CAPTURE(what);
    CHECK(wrong == "");
  }
  std::printf("%ld operations in %d jobs\n", total, runs);
}

// Abstract sockets belong to a network namespace.
TEST_CASE("ranks in different network namespaces cannot meet, and say so at the deadline") {
  if (::geteuid() != 0) return;
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(fork_rank("networks-" + std::to_string(::getpid()), r, 2, "1", [&] {
      expect(::unshare(CLONE_NEWNET) == 0, "no network namespace");
      error const e = error_of([] { static_cast<void>(init()); });
      expect(e.code() == error_code::timeout && e.peer() == 1 - r, e.what());
      expect(contains(e, "network namespace"), e.what());
    }));
  CHECK(end_of_ranks(ranks, 20s, [](int, int status) { return status == 0; }) == "");
}
