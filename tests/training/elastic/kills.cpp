// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training whose processes are killed at random moments, whatever they are doing, and replaced: every run ends with the
// weights of a run without losses. The number of runs is TUTTI_TEST_ELASTIC_RUNS, or 10; the seed of the first is
// TUTTI_TEST_SEED.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/forked_rank.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

unsigned number_of(char const* variable, unsigned otherwise) {
  char const* const text = std::getenv(variable);
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : otherwise;
}

struct killed_toys {
  int kills = 0, of_joining = 0, joined = 0;
};

// A job, with a launcher that kills its processes and replaces them.
class random_job {
 public:
  explicit random_job(unsigned seed) : random_(seed) {}

  // Returns what is wrong.
  std::string run(killed_toys& counts) {
    temporary_folder const at;
    int const ranks = 2 + below(4), kills = 1 + below(3);
    std::uint64_t const every = static_cast<std::uint64_t>(1 + below(3));
    job_.steps = 60;
    job_.ranks = ranks;
    job_.pause = std::chrono::milliseconds(1 + below(3));
    job_.options = [&](int) {
      return training::elastic_options{
          .min_ranks = 1, .snapshot_every = every, .checkpoint_every = 2, .folder = at.path() / "run"};
    };
    job_.begun = begun_.all();
    for (int r = 0; r < ranks; ++r) start(r, false);
    // init() itself is not elastic. Until there is a checkpoint, two ranks at once may be too many.
    auto const until = detail::deadline::after(std::chrono::seconds(60));
    while (std::ranges::any_of(processes_, [&](auto const& p) { return step_of(p) < 4; }) && !until.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int k = 0; k < kills && kill_one(counts); ++k) {
      nap(30);
      for (int r = 0; r < ranks; ++r)
        if (below(4) > 0 && !is_running(r)) start(r, true);
      nap(60);
    }
    return wait(counts);
  }

 private:
  struct process {
    pid_t id;
    int number;
    std::size_t index;
    bool is_new, killed = false, ended = false;
  };

  int below(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }
  void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::microseconds(below(1000 * milliseconds))); }
  std::uint64_t step_of(process const& p) const { return std::atomic_ref(begun_[p.index]).load(); }
  bool is_running(int number) const {
    return std::ranges::any_of(processes_, [&](auto const& p) { return p.number == number && !p.killed; });
  }

  void start(int number, bool is_new) {
    std::size_t const index = processes_.size();
    processes_.push_back(
        {job_.start_process(name_, static_cast<int>(index), number, is_new, ends_[index]), number, index, is_new});
  }
  // All but one may be killed, since one member keeps the state.
  bool kill_one(killed_toys& counts) {
    std::vector<process*> members, all;
    for (process& p : processes_) {
      if (p.killed) continue;
      all.push_back(&p);
      if (!p.is_new || step_of(p) > 0) members.push_back(&p);
    }
    process& victim = *all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
    bool const joining = victim.is_new && step_of(victim) == 0;
    if (members.size() < 2 && !joining) return true;
    ::kill(victim.id, SIGKILL);
    ::waitpid(victim.id, nullptr, 0);
    victim.killed = true;
    ++counts.kills;
    counts.of_joining += joining ? 1 : 0;
    return true;
  }

  std::string wait(killed_toys& counts) {
    std::string wrong;
    bool finished = false;
    auto const until = detail::deadline::after(std::chrono::seconds(100));
    for (std::size_t left = processes_.size(); left > 0;) {
      left = 0;
      for (process& p : processes_) {
        if (p.killed || p.ended) continue;
        int status = 0;
        bool const is_late = until.passed(), is_unneeded = finished && p.is_new && step_of(p) == 0;
        if (is_late || is_unneeded) ::kill(p.id, SIGKILL);
        if (::waitpid(p.id, &status, is_late || is_unneeded ? 0 : WNOHANG) == 0) {
          ++left;
          continue;
        }
        p.ended = true;
        std::string const who = " process " + std::to_string(p.index) + " (member " + std::to_string(p.number) + ")";
        if (is_late) wrong += who + " hangs in step " + std::to_string(step_of(p)) + ";";
        if (is_late || is_unneeded) continue;
        // The ranks turn it away when they have completed the last step, which may be before any of them has ended.
        if (p.is_new && step_of(p) == 0 && WIFEXITED(status) &&
            WEXITSTATUS(status) == 1 + static_cast<int>(error_code::bad_argument) &&
            std::ranges::any_of(processes_, [&](auto const& other) { return step_of(other) == job_.steps; }))
          continue;
        finished = true;
        counts.joined += p.is_new ? 1 : 0;
        if (status != 0) wrong += who + " ended with status " + std::to_string(status) + ";";
        else if (ends_[p.index].hash != toy_training::hash_after(job_.steps)) wrong += who + " has other weights;";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return wrong;
  }

  std::mt19937 random_;
  toy_job job_;
  std::string const name_ = toy_job::new_name();
  shared_with_forks<toy_end> ends_{64};
  shared_with_forks<std::uint64_t> begun_{64};  // the last step that each process has begun
  std::vector<process> processes_;
};

}  // namespace

TEST_CASE("whenever processes are killed, the others go on, new ones join, and all have the right weights") {
  unsigned const runs = number_of("TUTTI_TEST_ELASTIC_RUNS", sanitized ? 4 : 10),
                 seed = number_of("TUTTI_TEST_SEED", 20261125);
  killed_toys counts;
  for (unsigned run = 0; run < runs; ++run) {
    CAPTURE(seed + run);
    std::string const wrong = random_job(seed + run).run(counts);
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  std::printf(
      "%u runs from seed %u: %d processes were killed, %d of them before they had joined; %d of those that ended had "
      "joined\n",
      runs, seed, counts.kills, counts.of_joining, counts.joined);
  CHECK(counts.kills > 0);
}
