// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank is killed at a random moment of random calls: every other rank soon gets an error that names it.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "support/conformance.hpp"
#include "support/held_by_process.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr int rank_count = 4;

// The observations of a rank, written where its parent can read them.
struct sight {
  std::int64_t time;  // of the error or, at the victim, of its end
  std::int64_t calls;
  error_code code;
  int peer;
  bool saw;
  bool ready;  // for the kill; an error of the next call is noticed
};

std::int64_t now() { return deadline::clock::now().time_since_epoch().count(); }

class sights {
 public:
  sights()
      : of_(static_cast<sight*>(
            ::mmap(nullptr, sizeof(sight) * rank_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(of_ != MAP_FAILED);
  }
  sights(sights const&) = delete;
  sights& operator=(sights const&) = delete;
  ~sights() { ::munmap(of_, sizeof(sight) * rank_count); }
  sight& operator[](int r) const { return of_[r]; }

  bool all_ready() const {
    return std::all_of(of_, of_ + rank_count, [](sight& s) { return std::atomic_ref(s.ready).load(); });
  }

 private:
  sight* of_;
};

[[noreturn]] void end_here(sight& mine) {
  mine.time = now();
  ::raise(SIGKILL);
  std::abort();
}

// Calls work() until it throws; the victim dies `delay` after all ranks have arrived here. Before that, another rank
// may still be creating its communicator.
template <class Comm, class Work>
void go_on_until_error(Comm& comm, int victim, std::chrono::microseconds delay, sights const& seen, Work&& work) {
  sight& mine = seen[comm.rank()];
  std::atomic_ref(mine.ready).store(true);
  std::jthread killer;
  if (comm.rank() == victim)
    killer = std::jthread([&seen, &mine, delay](std::stop_token const& given_up) {
      while (!seen.all_ready() && !given_up.stop_requested()) std::this_thread::sleep_for(100us);
      std::this_thread::sleep_for(delay);
      end_here(mine);
    });
  try {
    for (;; ++mine.calls) work();
  } catch (error const& e) {
    mine.time = now(), mine.code = e.code(), mine.peer = e.peer(), mine.saw = true;
  }
}

// Runs `rank` in every rank and returns, for each survivor, the seconds from the kill to its error.
template <class F>
std::vector<double> survive(sights const& seen, int victim, F&& rank) {
  for (int r = 0; r < rank_count; ++r) seen[r] = {};
  std::string said;
  try {
    run_local(rank_count, rank);
  } catch (error const& e) {
    said = e.what();
    CHECK(e.peer() == victim);
  }
  CAPTURE(said);
  CHECK(said.find("rank " + std::to_string(victim) + " was ended by signal 9") != std::string::npos);
  std::vector<double> seconds;
  for (int r = 0; r < rank_count; ++r) {
    if (r == victim) continue;
    CAPTURE(r);
    CHECK(seen[r].saw);
    CHECK(seen[r].code == error_code::rank_lost);
    CHECK(seen[r].peer == victim);
    seconds.push_back(
        std::chrono::duration<double>(deadline::clock::duration(seen[r].time - seen[victim].time)).count());
    CHECK(seconds.back() < 5);
  }
  return seconds;
}

void print(char const* what, std::vector<double> seconds) {
  std::ranges::sort(seconds);
  auto const at = [&](std::size_t percent) { return 1e3 * seconds[(seconds.size() - 1) * percent / 100]; };
  std::printf("%s: noticed after %.2f ms (median), %.2f (90 %%), %.2f (99 %%), %.2f (last of %zu)\n", what, at(50),
              at(90), at(99), at(100), seconds.size());
}

struct registered {
  algorithm_id id;
  collective what;
  dynamic_schedule schedule;
};

std::vector<registered> everything_registered() {
  std::vector<registered> out;
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) { out.push_back({id, c, s}); });
  return out;
}

// A call of any kind, by any algorithm, of 8 B to 4 MiB; the same on all ranks, which have equal generators.
template <class Comm>
void any_call(Comm& comm, std::vector<registered> const& all, std::mt19937& random) {
  auto const below = [&](std::size_t n) { return random() % n; };
  registered const& one = all[below(all.size())];
  std::size_t count = std::size_t{2} << below(20);
  if (by_block(one.what)) count = std::max<std::size_t>(count / rank_count, 2);
  protocol how = std::array{protocol::automatic, protocol::staged, protocol::pull}[below(3)];
  if (!possible(comm, one.schedule, one.what, one.id, how, count * sizeof(float))) how = protocol::automatic;
  trial const t{.options = {.algorithm = one.id, .protocol = how},
                .count = count,
                .root = static_cast<int>(below(rank_count)),
                .in_place = below(2) == 0,
                .shared = below(2) == 0};
  conformance<Comm>(comm).template check<float>(one.what, t, sum{});
}

std::size_t count_children() {
  std::size_t out = 0;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) ++out;
  return out;
}

}  // namespace

TEST_CASE("whenever a rank is killed, every other rank throws an error that names it") {
  ::setenv("TUTTI_TIMEOUT", "20", 1);
  auto const all = everything_registered();
  sights const seen;
  std::vector<double> seconds;
  unsigned const least_runs = sanitized ? 20 : 100, least_calls = 10 * least_runs;
  std::int64_t calls = 0;
  auto const open_before = open_files();
  int const segments_before = segments();
  std::mt19937 random(20261121);
  unsigned run = 0;
  for (; run < least_runs || (calls < least_calls && run < least_calls); ++run) {
    int const victim = static_cast<int>(random() % rank_count);
    auto const delay = std::chrono::microseconds(random() % 50000);
    CAPTURE(run);
    CAPTURE(victim);
    auto const these = survive(seen, victim, [&](auto& comm) {
      std::mt19937 same_everywhere(run);
      go_on_until_error(comm, victim, delay, seen, [&] { any_call(comm, all, same_everywhere); });
    });
    seconds.insert(seconds.end(), these.begin(), these.end());
    calls += seen[victim == 0 ? 1 : 0].calls + 1;
  }
  std::printf("%lld calls of random kinds in %u runs, each ended by a kill\n", static_cast<long long>(calls), run);
  print("random calls", seconds);
  CHECK(calls >= least_calls);
  CHECK(count_children() == 0);
  CHECK(segments() == segments_before);
  CHECK(open_files() == open_before);
}

TEST_CASE("a rank killed in the middle of an all_reduce of many MiB") {
  ::setenv("TUTTI_TIMEOUT", "60", 1);
  std::size_t const mebibytes = sanitized ? 8 : 64;  // under sanitizers, a call of 8 takes as long
  std::size_t const count = (mebibytes << 20) / sizeof(float);
  sights const seen;
  struct {
    char const* name;
    options how;
    bool shared;
  } const cases[] = {
      {"staged", {.algorithm = algorithm_id::ring, .protocol = protocol::staged}, false},
      {"direct", {.algorithm = algorithm_id::ring, .protocol = protocol::direct}, true},
      {"pull where ranks can", {.algorithm = algorithm_id::two_shot, .protocol = protocol::pull}, false},
  };
  for (auto const& [name, wanted, shared] : cases) {
    CAPTURE(std::string(name));
    std::vector<double> seconds;
    for (int const victim : {0, 3}) {
      CAPTURE(victim);
      auto const these = survive(seen, victim, [&](auto& comm) {
        using array = decltype(comm.template allocate<float>(0));
        options how = wanted;
        if (how.protocol == protocol::pull && !comm.engine().transport().pulls()) how.protocol = protocol::automatic;
        std::vector<float> mine(shared ? 0 : count);
        array given = comm.template allocate<float>(shared ? count : 0);
        std::span<float> const data = shared ? std::span<float>(given.data(), count) : std::span<float>(mine);
        all_reduce(comm, data, sum{}, how);
        auto const began = deadline::clock::now();
        all_reduce(comm, data, sum{}, how);
        auto const whole = std::chrono::duration_cast<std::chrono::microseconds>(deadline::clock::now() - began);
        barrier(comm);
        go_on_until_error(comm, victim, whole / 2, seen, [&] { all_reduce(comm, data, sum{}, how); });
      });
      seconds.insert(seconds.end(), these.begin(), these.end());
    }
    print(join({"all_reduce of ", mebibytes, " MiB, ", name}).c_str(), seconds);
  }
}
