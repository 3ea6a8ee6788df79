// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A job whose ranks are killed at random moments; the survivors shrink and finish it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// The activity that ranks spend most of a job in, so that a kill usually interrupts it.
enum class habit : unsigned { calls, started, groups, shrinks, computes, allocates, messages, agrees, prepared };
inline constexpr std::array<char const*, 9> habits{"in calls",    "in started calls", "in making groups",
                                                   "in shrink",   "in computing",     "in allocating",
                                                   "in messages", "in agree",         "in prepared calls"};

// The job of a rank. It keeps two values, because a lost rank may have let only some ranks finish a step.
template <class Comm>
class job {
 public:
  job(Comm& comm, habit h) : comm_(&comm), habit_(h) {}

  bool done() const { return step_ == steps; }
  bool right() const { return value_ == answer(); }

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

  // Resumes in another communicator, from the earliest step that any of its ranks is in; they are at most one apart.
  void go_on_in(Comm& comm) {
    comm_ = &comm;
    std::vector<int> earliest{step_};
    all_reduce(comm, earliest, min{});
    expect(step_ - earliest[0] <= 1, "ranks are steps apart");
    if (step_ == earliest[0]) return;
    value_ = before_;
    --step_;
  }

 private:
  static constexpr int steps = 25;
  static constexpr std::size_t items = 500;

  // A step of the job. Its effect on a value depends on all items, but not on which rank has which.
  static std::uint64_t part_of(std::uint64_t value, std::size_t item) {
    std::uint64_t const x = (value ^ item) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
  }
  static std::uint64_t answer() {
    std::uint64_t value = 1;
    for (int s = 0; s < steps; ++s) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < items; ++i) sum += part_of(value, i);
      value = sum;
    }
    return value;
  }

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
      case habit::computes: std::this_thread::sleep_for(std::chrono::milliseconds(1)); break;
      case habit::allocates: {
        auto const memory = comm.template allocate<float>(1 << 18);
        memory[7] = 1;
        break;
      }
      case habit::messages: talk(); break;
      case habit::agrees:
        for (int i = 0; i < 20; ++i) expect(comm.agree(6).flags == 6, "an agreement is wrong");
        break;
      case habit::prepared: {
        persistent sum = all_reduce(tutti::prepared(comm), some);
        for (int i = 0; i < 20; ++i) {
          sum.start();
          sum.wait();
        }
        break;
      }
      default: break;
    }
  }

  // Around the ring: blocking, started, and in a batch; small messages and large ones.
  void talk() {
    auto& comm = *comm_;
    int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    for (std::size_t const count : {5u, 3000u, 50000u}) {
      std::vector<int> out(count, me), in(count), more(count);
      send_recv(comm, out, right, in, left);
      receive_work incoming = irecv(comm, more, left, 1);
      work outgoing = isend(comm, out, right, 1);
      batch(comm).send(out, right, 2).recv(in, left, 2).run();
      incoming.wait();
      outgoing.wait();
      expect(in.back() == left && more.back() == left, "a message is wrong");
    }
  }

  Comm* comm_;
  habit habit_;
  int step_ = 0;
  std::uint64_t value_ = 1, before_ = 1;
};

struct script {
  int ranks;
  habit what;
  std::vector<int> victims;
  std::vector<std::chrono::microseconds> after;  // the start of the job; for further victims: of their first shrink
};

inline script any_script(std::mt19937& random, int ranks) {
  script out{ranks, static_cast<habit>(random() % habits.size()), {}, {}};
  std::vector<int> all(static_cast<std::size_t>(out.ranks));
  for (int r = 0; r < out.ranks; ++r) all[static_cast<std::size_t>(r)] = r;
  std::ranges::shuffle(all, random);
  out.victims.assign(all.begin(), all.begin() + (out.what == habit::shrinks ? 2 : 1));
  out.after = {std::chrono::microseconds(random() % 15000), std::chrono::microseconds(random() % 1500)};
  return out;
}

inline void die_in(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    ::raise(SIGKILL);
  }).detach();
}

// Runs the job on a rank; returns the communicator in which it has finished. The rank knows lost ranks only from
// errors.
template <class Comm>
Comm finish_with_losses(Comm& first, script const& s) {
  bool const second = s.victims.size() > 1 && first.rank() == s.victims[1];
  std::optional<Comm> smaller;
  Comm* comm = &first;
  std::vector<int> names;  // in the first communicator
  for (int r = 0; r < first.size(); ++r) names.push_back(r);
  job<Comm> mine(first, s.what);
  first.agree();  // otherwise another rank may still be creating its communicator
  if (first.rank() == s.victims[0]) die_in(s.after[0]);
  bool moves = false;
  // The job continues until all victims are dead, because a kill may come after the last step.
  while (!mine.done() || comm->size() > s.ranks - static_cast<int>(s.victims.size())) {
    try {
      if (moves) mine.go_on_in(*comm);
      moves = false;
      if (mine.done()) barrier(*comm);
      else mine.step();
    } catch (error const& e) {
      expect(e.code() == error_code::rank_lost, std::string("no word of a lost rank: ") + e.what());
      bool const unfinished = e.happened().find("while it reported") != std::string::npos;
      expect(
          unfinished || (e.peer() >= 0 && std::ranges::count(s.victims, names[static_cast<std::size_t>(e.peer())]) > 0),
          std::string("the wrong rank is to blame: ") + e.what());
      if (second && comm == &first) die_in(s.after[1]);
      Comm next = comm->shrink();
      std::vector<int> lost, now;
      for (int const r : next.survivors()) now.push_back(names[static_cast<std::size_t>(r)]);
      std::ranges::set_difference(names, now, std::back_inserter(lost));
      expect(!lost.empty() && std::ranges::all_of(lost, [&](int r) { return std::ranges::count(s.victims, r) > 0; }),
             "shrink has left out a live rank, or no rank");
      names = now;
      smaller = std::move(next);
      comm = &*smaller;
      moves = true;
    }
  }
  expect(mine.right(), "the answer is wrong");
  barrier(*comm);
  return std::move(*smaller);
}

}  // namespace tutti::testing
