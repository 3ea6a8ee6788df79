// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that have operations in flight are stopped, killed, replaced by another program and forked at random moments, in
// processes that may be refused system calls. Every result is exact or an error; the error names the guilty rank on all
// others, nothing waits past its deadline, and the survivors go on without it.
// TUTTI_TEST_SEED is the first seed, TUTTI_TEST_CHAOS the number of seeds; a failure prints its own.
// labels: processes alone waits optimised native
// timeout: 300
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/system_calls.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

enum class mishap { none, one_stopped, all_stopped, forks, stopped_too_long, killed, replaced };
constexpr std::array<char const*, 7> mishap_names{"nothing happens",
                                                  "a rank is stopped for a moment",
                                                  "all ranks are stopped for longer than the timeout",
                                                  "a rank forks",
                                                  "a rank is stopped for longer than the timeout",
                                                  "a rank is killed",
                                                  "a rank becomes another program"};

// What happens to a job. All of it follows from the seed, and its processes know it.
struct fate {
  unsigned seed;
  int ranks, victim;
  mishap what;
  std::chrono::microseconds after;
  bool refuse_handles, refuse_reading;  // by the system, to the rank after the victim
  bool fatal() const { return what >= mishap::stopped_too_long; }
  bool ends_victim() const { return what >= mishap::killed; }
  std::chrono::milliseconds stop() const {
    if (what == mishap::one_stopped) return 100ms;
    return what == mishap::all_stopped ? 3s : 5s;
  }
  std::string timeout() const { return what == mishap::all_stopped || what == mishap::stopped_too_long ? "2" : "10"; }

  static fate of(unsigned seed) {
    std::mt19937 random(seed);
    auto const below = [&](unsigned n) { return static_cast<int>(random() % n); };
    fate out{};
    out.seed = seed;
    out.what = static_cast<mishap>(seed % mishap_names.size());
    out.ranks = 2 + below(4);
    out.victim = below(static_cast<unsigned>(out.ranks));
    out.after = std::chrono::microseconds(below(50'000));
    out.refuse_handles = below(4) == 0;
    out.refuse_reading = below(4) == 0;
    return out;
  }
};

// Random operations, up to eight of which are in flight; the same ones on all ranks.
template <class Comm>
class traffic {
 public:
  traffic(Comm& comm, unsigned seed) : comm_(comm), random_(seed) {}

  void step() {
    std::size_t const count = std::size_t{1} << random_() % 18;
    int const root = static_cast<int>(random_() % static_cast<unsigned>(size())),
              kind = static_cast<int>(random_() % 6);
    int const first = static_cast<int>(++steps_ % 1000);
    std::vector<int> data(count, first + rank());
    int const sum_of_all = size() * first + size() * (size() - 1) / 2;
    if (kind == 0) {
      all_reduce(comm_, data);
      check(data, sum_of_all);
    } else if (kind == 1) {
      broadcast(comm_, data, root);
      check(data, first + root);
    } else if (kind == 2) {
      barrier(comm_);
    } else {
      in_flight_.push_back({std::move(data), {}, 0, {}, {}});
      pending& p = in_flight_.back();
      if (kind == 3) {
        p.expected = sum_of_all;
        p.done = all_reduce(async(comm_), p.data);
      } else if (kind == 4) {
        p.expected = first + root;
        p.done = broadcast(async(comm_), p.data, root);
      } else {
        int const left = (rank() + size() - 1) % size(), right = (rank() + 1) % size();
        p.received.resize(count);
        p.expected = first + left;
        p.arrived = irecv(comm_, p.received, left, 7);
        p.done = isend(comm_, p.data, right, 7);
      }
    }
    while (in_flight_.size() > 8) end_oldest();
  }
  void end_all() {
    while (!in_flight_.empty()) end_oldest();
  }

 private:
  struct pending {
    std::vector<int> data, received;
    int expected;
    work done;
    receive_work arrived;
  };

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  static void check(std::vector<int> const& data, int expected) {
    expect(std::ranges::all_of(data, [&](int v) { return v == expected; }), "a result is wrong");
  }
  void end_oldest() {
    pending& p = in_flight_.front();
    p.done.wait();
    if (!p.received.empty()) p.arrived.wait();
    check(p.received.empty() ? p.data : p.received, p.expected);
    in_flight_.pop_front();
  }

  Comm& comm_;
  std::mt19937 random_;
  std::deque<pending> in_flight_;
  unsigned steps_ = 0;
};

// Becomes another program, or forks, while this rank's operations go on.
void disturb_itself(fate const& f) {
  std::this_thread::sleep_for(f.after);
  if (f.what == mishap::replaced) ::execl("/bin/true", "true", static_cast<char*>(nullptr));
  for (int i = 0; i < 20; ++i) {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
}

// `ready` is closed once this rank's operations begin.
void be_rank(fate const& f, int rank, int ready) {
  if (rank == (f.victim + 1) % f.ranks) {
    if (f.refuse_handles)
      expect(filter_system_calls({SYS_pidfd_open}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), "no filter");
    if (f.refuse_reading)
      expect(filter_system_calls({SYS_process_vm_readv}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), "no filter");
  }
  auto comm = init();
  traffic all(comm, f.seed);
  barrier(comm);
  ::close(ready);
  std::jthread disturbance;
  if (rank == f.victim && (f.what == mishap::replaced || f.what == mishap::forks))
    disturbance = std::jthread([&] { disturb_itself(f); });
  try {
    for (int i = 0; f.fatal() || i < 400; ++i) all.step();
    all.end_all();
    return;
  } catch (error const& e) {
    if (!f.fatal()) throw;
    if (rank == f.victim) return;
    error_code const wanted = f.ends_victim() ? error_code::rank_lost : error_code::timeout;
    if (e.code() != wanted || e.peer() != f.victim) throw;
    bool const named = e.happened().find("is stopped, by a signal or a debugger") != std::string::npos;
    if (named != (f.what == mishap::stopped_too_long)) throw;
  }
  if (!f.ends_victim()) return;
  auto rest = comm.shrink();
  expect(rest.size() == f.ranks - 1, "somebody else is lost");
  std::vector<int> ones(1000, 1);
  all_reduce(rest, ones);
  expect(ones.back() == rest.size(), "the survivors' sum is wrong");
}

void stop_and_resume(std::vector<pid_t> const& ranks, std::chrono::milliseconds time) {
  for (pid_t const process : ranks) ::kill(process, SIGSTOP);
  std::this_thread::sleep_for(time);
  for (pid_t const process : ranks) ::kill(process, SIGCONT);
}

std::string run(fate const& f) {
  std::string const job = "chaos-" + std::to_string(::getpid()) + "-" + std::to_string(f.seed);
  std::array<int, 2> all_ready{};
  REQUIRE(::pipe2(all_ready.data(), O_CLOEXEC) == 0);
  std::vector<pid_t> ranks;
  for (int r = 0; r < f.ranks; ++r)
    ranks.push_back(fork_rank(job, r, f.ranks, f.timeout(), [&] { be_rank(f, r, all_ready[1]); }));
  ::close(all_ready[1]);
  char none = 0;
  static_cast<void>(::read(all_ready[0], &none, 1));  // ends once all ranks have closed it, or have ended
  ::close(all_ready[0]);
  pid_t const victim = ranks[static_cast<std::size_t>(f.victim)];
  std::this_thread::sleep_for(f.after);
  if (f.what == mishap::killed) ::kill(victim, SIGKILL);
  if (f.what == mishap::one_stopped || f.what == mishap::stopped_too_long) stop_and_resume({victim}, f.stop());
  if (f.what == mishap::all_stopped) stop_and_resume(ranks, f.stop());
  return end_of_ranks(ranks, 30s, [&](int r) { return f.what == mishap::killed && r == f.victim; });
}

int number_in(char const* variable, int otherwise) {
  char const* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// The files that shared memory could leave behind.
std::size_t shared_files() {
  auto const all = std::filesystem::directory_iterator("/dev/shm");
  return static_cast<std::size_t>(std::ranges::count_if(
      all, [](auto const& file) { return file.path().filename().string().find("tutti") != std::string::npos; }));
}

}  // namespace

TEST_CASE("whatever happens to one rank or to all, results are exact or errors name the guilty rank") {
  int const first = number_in("TUTTI_TEST_SEED", 1), runs = number_in("TUTTI_TEST_CHAOS", 21);
  std::size_t const files = shared_files();
  for (int seed = first; seed < first + runs; ++seed) {
    fate const f = fate::of(static_cast<unsigned>(seed));
    std::string const what = mishap_names[static_cast<std::size_t>(f.what)], wrong = run(f);
    CAPTURE(seed);
    CAPTURE(what);
    CHECK(wrong == "");
  }
  CHECK(shared_files() <= files);
}
