// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are killed at random moments of a job, whatever they are doing; those that are left shrink and finish it. The
// number of kills is TUTTI_TEST_KILLS, or 60.
// labels: processes
// timeout: 400
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

using comm_type = communicator<shm>;

// What ranks spend most of a job in; the kill falls into it, or beside it.
enum class habit : unsigned { calls, started, groups, shrinks, computes, allocates };
constexpr std::array<char const*, 6> habits{"in calls",  "in started calls", "in making groups",
                                            "in shrink", "in computing",     "in allocating"};

constexpr int steps = 25;
constexpr std::size_t items = 500;

// A step of the job: what it makes of a value depends on all items, and not on which rank has which.
std::uint64_t part_of(std::uint64_t value, std::size_t item) {
  std::uint64_t const x = (value ^ item) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}
std::uint64_t answer() {
  std::uint64_t value = 1;
  for (int s = 0; s < steps; ++s) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < items; ++i) sum += part_of(value, i);
    value = sum;
  }
  return value;
}

// The job of a rank: two values are kept, for a rank that is lost may have let only some finish a step.
class job {
 public:
  job(comm_type& comm, habit h) : comm_(&comm), habit_(h) {}

  bool done() const { return step_ == steps; }
  std::uint64_t value() const { return value_; }

  void step() {
    auto& comm = *comm_;
    auto const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    std::vector<std::uint64_t> sum{0};
    for (std::size_t i = rank; i < items; i += ranks) sum[0] += part_of(value_, i);
    busy();
    if (habit_ == habit::started) {
      std::vector<float> large(50000, 1);
      work first = all_reduce(async(comm), large), second = all_reduce(async(comm), sum);
      second.wait();
      first.wait();
    } else {
      all_reduce(comm, sum);
    }
    before_ = value_;
    value_ = sum[0];
    ++step_;
  }

  // In another communicator, from the earliest step that any of its ranks is in: they are one apart at most.
  void go_on_in(comm_type& comm) {
    comm_ = &comm;
    std::vector<int> earliest{step_};
    all_reduce(comm, earliest, min{});
    expect(step_ - earliest[0] <= 1, "ranks are steps apart");
    if (step_ == earliest[0]) return;
    value_ = before_;
    --step_;
  }

 private:
  void busy() {
    auto& comm = *comm_;
    std::vector<float> some(3000, 1);
    switch (habit_) {
      case habit::calls:
        for (int i = 0; i < 20; ++i) all_reduce(comm, some);
        break;
      case habit::groups: {
        auto part = comm.split(0).value();
        barrier(part);
        break;
      }
      case habit::computes: std::this_thread::sleep_for(1ms); break;
      case habit::allocates: {
        auto const memory = comm.allocate<float>(1 << 18);
        memory[7] = 1;
        break;
      }
      default: break;
    }
  }

  comm_type* comm_;
  habit habit_;
  int step_ = 0;
  std::uint64_t value_ = 1, before_ = 1;
};

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}
int segments() {
  int out = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) out += line.find("/memfd:tutti") != line.npos ? 1 : 0;
  return out;
}
std::size_t resident_pages() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

struct script {
  int ranks;
  habit what;
  std::vector<int> victims;
  std::vector<std::chrono::microseconds> after;  // the start of the job; for further victims: of their first shrink
};

script any_script(std::mt19937& random) {
  script out{3 + static_cast<int>(random() % 4), static_cast<habit>(random() % habits.size()), {}, {}};
  std::vector<int> all(static_cast<std::size_t>(out.ranks));
  for (int r = 0; r < out.ranks; ++r) all[static_cast<std::size_t>(r)] = r;
  std::ranges::shuffle(all, random);
  out.victims.assign(all.begin(), all.begin() + (out.what == habit::shrinks ? 2 : 1));
  out.after = {std::chrono::microseconds(random() % 15000), std::chrono::microseconds(random() % 1500)};
  return out;
}

void die_in(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    ::raise(SIGKILL);
  }).detach();
}

// What a rank does. Whom it lost is what it was told.
void be_rank(comm_type& first, script const& s) {
  bool const second = s.victims.size() > 1 && first.rank() == s.victims[1];
  auto const files = open_files();
  comm_type smaller(std::make_unique<shm>());
  comm_type* comm = &first;
  std::vector<int> names;  // in the first communicator
  for (int r = 0; r < first.size(); ++r) names.push_back(r);
  job mine(first, s.what);
  first.agree();  // or another rank may still be making its communicator
  if (first.rank() == s.victims[0]) die_in(s.after[0]);
  bool moves = false;
  // The job goes on until all victims are dead: a kill may come after the last step.
  while (!mine.done() || comm->size() > s.ranks - static_cast<int>(s.victims.size())) {
    try {
      if (moves) mine.go_on_in(*comm);
      moves = false;
      if (mine.done()) barrier(*comm);
      else mine.step();
    } catch (error const& e) {
      expect(e.code() == error_code::rank_lost, std::string("no word of a lost rank: ") + e.what());
      bool const unfinished = e.happened().find("while it reported") != std::string::npos;
      expect(unfinished || std::ranges::count(s.victims, names[static_cast<std::size_t>(e.peer())]) > 0,
             std::string("the wrong rank is to blame: ") + e.what());
      if (second && comm == &first) die_in(s.after[1]);
      comm_type next = comm->shrink();
      std::vector<int> lost, now;
      for (int const r : next.survivors()) now.push_back(names[static_cast<std::size_t>(r)]);
      std::ranges::set_difference(names, now, std::back_inserter(lost));
      expect(!lost.empty() && std::ranges::all_of(lost, [&](int r) { return std::ranges::count(s.victims, r) > 0; }),
             "shrink has left out a rank that lives, or nobody");
      names = now;
      smaller = std::move(next);
      comm = &smaller;
      moves = true;
    }
  }
  expect(mine.value() == answer(), "the answer is wrong");
  barrier(*comm);
  expect(segments() == (comm->size() > 1 ? 2 : 1), "there are more segments than communicators");
  expect(open_files() <= files, "files have been left open");
}

}  // namespace

TEST_CASE("whenever ranks are killed, the others learn who, shrink and finish the job") {
  char const* const wanted = std::getenv("TUTTI_TEST_KILLS");
  int const kills = wanted != nullptr ? std::atoi(wanted) : sanitized ? 20 : 60;
  std::mt19937 random(20261122);
  std::array<int, habits.size()> counted{};
  auto const files = open_files();
  std::size_t first_pages = 0;
  int killed = 0;
  for (int run = 0; killed < kills; ++run) {
    script const s = any_script(random);
    std::string said;
    try {
      run_local(s.ranks, [&](auto& comm) { be_rank(comm, s); });
    } catch (error const& e) {
      said = e.what();
    }
    CAPTURE(run);
    CAPTURE(std::string(habits[static_cast<std::size_t>(s.what)]));
    CAPTURE(said);
    for (int r = 0; r < s.ranks; ++r) {
      CAPTURE(r);
      bool const dead = said.find("rank " + std::to_string(r) + " was ended by signal 9") != said.npos;
      CHECK(dead == (std::ranges::count(s.victims, r) > 0));
      killed += dead ? 1 : 0;
    }
    REQUIRE(said.find("exit code") == said.npos);
    ++counted[static_cast<std::size_t>(s.what)];
    if (run == 10) first_pages = resident_pages();
  }
  for (std::size_t h = 0; h < habits.size(); ++h) std::printf("%d runs with a kill %s\n", counted[h], habits[h]);
  std::printf("%d ranks killed, all others finished their job\n", killed);
  CHECK(open_files() == files);
  CHECK(segments() == 0);
  CHECK(resident_pages() < first_pages + (std::size_t{16} << 20) / page);
}
