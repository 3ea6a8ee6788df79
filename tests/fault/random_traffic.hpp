// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations, which a test disturbs. Every result is checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Random operations, up to eight of which are in flight; the same ones on all ranks. Blocking ones by `Algorithm`.
template <class Comm, class Algorithm = automatic>
class random_traffic {
 public:
  random_traffic(Comm& comm, unsigned seed) : comm_(comm), random_(seed) {}

  void step() {
    std::size_t const count = std::size_t{1} << random_() % 18;
    int const root = static_cast<int>(random_() % static_cast<unsigned>(size())),
              kind = static_cast<int>(random_() % 6);
    int const first = static_cast<int>(++steps_ % 1000);
    std::vector<int> data(count, first + rank());
    int const sum_of_all = size() * first + size() * (size() - 1) / 2;
    if (kind == 0) {
      all_reduce<Algorithm>(comm_, data);
      check(data, sum_of_all);
    } else if (kind == 1) {
      broadcast<Algorithm>(comm_, data, root);
      check(data, first + root);
    } else if (kind == 2) {
      barrier<Algorithm>(comm_);
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
  // Of a rank that cannot go on: what it has started owns its arrays until it ends.
  void abandon() {
    for (pending& p : in_flight_)
      for (work* const started : {&p.done, static_cast<work*>(&p.arrived)}) {
        try {
          started->wait();
        } catch (std::exception const&) {
        }  // the exception that it ended with, or its own lack of memory
      }
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

}  // namespace tutti::testing
