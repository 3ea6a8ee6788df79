// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Started calls over one transport: they give the results of blocking ones, are in flight together, are waited for in
// any order, and end with an error if those would. Each function is executed by every rank.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/types_and_ops.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Every collective on `count` elements per rank, with the same code for blocking and started calls: f(comm, buffers)
// makes the call.
template <class T, class Op>
class every_call {
 public:
  struct buffers {
    std::vector<T> in, out;
    std::vector<std::size_t> counts;  // of a _v form

    bool operator==(buffers const& other) const { return std::ranges::equal(out, other.out, same_bits<T>); }
  };

  every_call(int rank, int ranks, std::size_t count, options const& o) : rank_(rank), count_(count), o_(o) {
    for (int q = 0; q < ranks; ++q) counts_.push_back(count + static_cast<std::size_t>(q % 3));
    all_ = 0;
    for (std::size_t const n : counts_) all_ += n;
  }

  static constexpr int kinds = 14;

  buffers make(int kind) const {
    auto const ranks = counts_.size(), own = counts_[static_cast<std::size_t>(rank_)];
    std::size_t const whole = count_ * ranks;
    switch (kind) {
      case 0:
      case 1:
      case 2:
      case 3: return filled(count_, count_);  // all_reduce, reduce, scans
      case 4: return filled(whole, count_);   // reduce_scatter
      case 5: return filled(all_, own);       // reduce_scatter_v
      case 6: return filled(0, count_);       // broadcast
      case 7:
      case 8: return filled(count_, whole);  // all_gather, gather
      case 9:
      case 10: return filled(own, all_);          // all_gather_v, gather_v
      case 11: return filled(whole, count_);      // scatter
      case 12: return filled(whole, whole);       // all_to_all
      default: return filled(own * ranks, all_);  // all_to_all_v
    }
  }

  template <class Comm>
  detail::returned_by<Comm> call(int kind, Comm&& comm, buffers& b) const {
    return call(kind, comm, b.in, b.out, b.counts);
  }
  // The same with other arrays in place of the vectors of buffers.
  template <class Comm, class In, class Out>
  detail::returned_by<Comm> call(int kind, Comm&& comm, In& in, Out& out, std::vector<std::size_t>& counts) const {
    int const root = comm.size() - 1;
    Op const op{};
    switch (kind) {
      case 0: return all_reduce(comm, in, out, op, o_);
      case 1: return reduce(comm, in, out, op, root, o_);
      case 2: return scan(comm, in, out, op, o_);
      case 3: return exclusive_scan(comm, in, out, op, o_);
      case 4: return reduce_scatter(comm, in, out, op, o_);
      case 5: return reduce_scatter_v(comm, in, out, std::exchange(counts, {}), op, o_);
      case 6: return broadcast(comm, out, root, o_);
      case 7: return all_gather(comm, in, out, o_);
      case 8: return gather(comm, in, out, root, o_);
      case 9: return all_gather_v(comm, in, out, std::exchange(counts, {}), {}, o_);
      case 10: return gather_v(comm, in, out, std::exchange(counts, {}), {}, root, o_);
      case 11: return scatter(comm, in, out, root, o_);
      case 12: return all_to_all(comm, in, out, o_);
      default: {
        std::vector<std::size_t> const sent(counts_.size(), counts_[static_cast<std::size_t>(rank_)]);
        return all_to_all_v(comm, in, sent, out, std::exchange(counts, {}), {}, {}, o_);
      }
    }
  }

 private:
  buffers filled(std::size_t in, std::size_t out) const {
    buffers b{std::vector<T>(in), std::vector<T>(out), counts_};
    for (std::size_t i = 0; i < in; ++i) b.in[i] = make_value<T>(rank_, i);
    for (std::size_t i = 0; i < out; ++i) b.out[i] = make_value<T>(rank_ + 1, i);
    return b;
  }

  int rank_;
  std::size_t count_;
  options o_;
  std::vector<std::size_t> counts_;
  std::size_t all_;
};

// All collectives in flight at once, mixed with blocking ones, waited for in a different order on each rank.
template <class T, class Op, class Comm>
void check_started(Comm& comm, std::size_t count, options const& o, unsigned seed) {
  using calls = every_call<T, Op>;
  calls const kind(comm.rank(), comm.size(), count, o);
  std::deque<typename calls::buffers> expected, got;
  for (int k = 0; k < calls::kinds; ++k) kind.call(k, comm, expected.emplace_back(kind.make(k)));
  for (int k = 0; k < calls::kinds; ++k) got.push_back(kind.make(k));

  std::mt19937 shared(seed), own(seed + static_cast<unsigned>(comm.rank()));
  std::vector<int> order(calls::kinds);
  for (int k = 0; k < calls::kinds; ++k) order[static_cast<std::size_t>(k)] = k;
  std::ranges::shuffle(order, shared);
  std::vector<std::pair<int, work>> started;
  for (int const k : order) {
    auto& b = got[static_cast<std::size_t>(k)];
    if (shared() % 5 == 0) kind.call(k, comm, b);
    else started.emplace_back(k, kind.call(k, async(comm), b));
  }
  std::ranges::shuffle(started, own);
  for (auto& [k, w] : started) {
    switch (own() % 3) {
      case 0: w.wait(); break;
      case 1: expect(w.wait(std::chrono::seconds(20)), "a call did not complete in time"); break;
      default:
        while (!w.test()) std::this_thread::yield();
    }
    expect(w.done() && !w.exception(), "a call that has ended says that it has not, or went wrong");
  }
  for (std::size_t k = 0; k < got.size(); ++k)
    expect(got[k] == expected[k], "collective " + std::to_string(k) + " of " + std::to_string(count) +
                                      " elements has another result when it is started");
}

template <class T, class Op, class Comm>
void check_all_started(Comm& comm) {
  unsigned seed = 0;
  for (std::size_t const count : {0u, 1u, 7u, 300u, 20000u}) check_started<T, Op>(comm, count, {}, ++seed);
  check_started<T, Op>(comm, 5000, {.protocol = protocol::staged}, ++seed);
}

// Another communicator of the same ranks.
template <class Comm>
Comm of_all(Comm& comm) {
  std::vector<int> all(static_cast<std::size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return comm.subgroup(all);
}

// Ranks wait for calls on several communicators in opposite orders, and make blocking calls on one while calls on
// another are in progress.
template <class Comm>
void check_several_communicators(Comm& comm) {
  Comm other = of_all(comm);
  bool const odd = comm.rank() % 2 == 1;
  for (int round = 0; round < 20; ++round) {
    std::vector<int> a(100000, 1), b(3, 2), c(5000, 3);
    work first = all_reduce(async(comm), a), second = all_reduce(async(other), b);
    if (odd) std::swap(first, second);
    first.wait();
    second.wait();
    expect(a[99999] == comm.size() && b[2] == 2 * comm.size(), "a sum is wrong");
    work third = all_reduce(async(other), c);
    if (odd) third.wait();
    barrier(comm);
    third.wait();
    expect(c[4999] == 3 * comm.size(), "a sum is wrong beside a barrier");

    work fourth = barrier(async(comm)), fifth = barrier(async(other));
    if (odd) std::swap(fourth, fifth);
    while (!fourth.test()) {
    }
    while (!fifth.test()) {
    }
    // Some ranks are creating a group while others wait.
    work sixth = all_reduce(async(other), a);
    if (odd) sixth.wait();
    Comm made = of_all(comm);
    sixth.wait();
    barrier(made);
  }
}

template <class Comm>
void check_lists(Comm& comm) {
  std::vector<std::vector<int>> data(8, std::vector<int>(500, 1));
  std::vector<work> works;
  for (auto& d : data) works.push_back(all_reduce(async(comm), d));
  expect(wait_for_any(works) == 0, "calls of one communicator do not end in their order");
  wait_for_all(works);
  for (auto const& d : data) expect(d[499] == comm.size(), "a sum is wrong");
  expect(!wait_for_any({}), "one of no works has ended");
  std::vector<persistent> never_started(2);
  expect(wait_for_any(never_started) == 0, "what was never started has not ended");
  wait_for_all(never_started);
  wait_for_all({});

  std::vector<int> one(10, 1), other(1000, 1);
  work const sum = all_reduce(async(comm), one);
  work greatest = all_reduce(async(comm), other, max{});
  wait_for_all(sum, greatest);
  expect(one[9] == comm.size() && other[999] == 1, "calls that were waited for together");
  expect(work().done() && work().test() && work().wait(std::chrono::seconds(0)), "work of nothing has not ended");
  expect(works[0].duration().count() > 0 && works[0].duration() == works[0].duration(), "a duration goes on");
}

// Arguments are checked at the start; errors of a running call are thrown by all ways to wait, and by later calls.
template <class Comm>
void check_started_mismatch(Comm& comm) {
  std::vector<int> ones(10, 1), wrong(9);
  expect_error(error_of([&] { return all_reduce(async(comm), ones, wrong); }), error_code::bad_argument,
               "the output of all_reduce has 9 elements, but");
  expect_error(error_of([&] { return all_reduce(async(comm), ones, sum{}, {.algorithm = algorithm_id::native}); }),
               error_code::bad_argument,
               detail::has_native_collectives<typename Comm::transport_type>
                   ? "native blocks internally"
                   : "native cannot do all_reduce: this transport has no collectives of its own");
  expect_error(error_of([&] { return all_reduce(async(comm), ones, sum{}, {.algorithm = algorithm_id::two_level}); }),
               error_code::bad_argument, "two_level cannot do all_reduce: this transport has no nodes");
  std::vector<int> uneven(static_cast<std::size_t>(comm.rank() + 1));
  work fits = all_reduce(async(comm), ones);
  fits.wait();
  Comm sound = of_all(comm);  // a rank that is still in the call before would get the fault too
  barrier(sound);
  work does_not = all_reduce(async(comm), uneven), after = all_reduce(async(comm), ones);
  for (int again = 0; again < 2; ++again)
    expect_error(error_of([&] { does_not.wait(); }), error_code::mismatch, "ranks disagree in call #2");
  expect_error(error_of([&] { does_not.test(); }), error_code::mismatch, "async.hpp:");
  expect_error(error_of([&] { after.wait(std::chrono::seconds(9)); }), error_code::mismatch,
               "ranks disagree in call #2");
  expect(after.done() && after.exception() && !fits.exception(), "an error is not kept");
  expect_error(error_of([&] { barrier(comm); }), error_code::mismatch, "ranks disagree in call #2");
}

// Rank 1 is late, and later does not arrive at all.
template <class Comm>
void check_started_timeout(Comm& comm) {
  std::vector<int> ones(10, 1);
  Comm sound = of_all(comm);
  int token = 0;
  if (comm.rank() == 1) recv(sound, std::span(&token, 1), 0);
  work late = all_reduce(async(comm), ones);
  if (comm.rank() == 0) {
    expect(!late.wait(std::chrono::milliseconds(20)), "a call has ended without rank 1");
    send(sound, std::span(&token, 1), 1);
  }
  late.wait();
  expect(ones[9] == comm.size(), "a sum is wrong");
  barrier(sound);  // a rank that is still in the call before would get the fault of the next
  if (comm.rank() == 1) return barrier(sound);
  work never = all_reduce(async(comm), ones, sum{}, {.timeout = std::chrono::milliseconds(300)});
  auto const polled = [&] {
    while (!never.test()) {
    }
  };
  error const e = comm.rank() == 0 ? error_of(polled) : error_of([&] { never.wait(); });
  expect(e.code() == error_code::timeout || e.code() == error_code::rank_left,
         std::string("not a timeout: ") + e.what());
  barrier(sound);
}

// A progress_thread drives calls that this rank does not poll, long ones and short ones, also after a while without any, when the
// thread no longer naps but sleeps.
template <class Comm>
void check_progress_thread(Comm& comm) {
  progress_thread const moves_calls;
  for (int round = 0; round < 10; ++round) {
    if (round % 5 == 4) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    std::vector<int> a(round % 2 == 0 ? 50000 * (static_cast<std::size_t>(round) + 1) : 2, 1), b(3, 1);
    work const first = all_reduce(async(comm), a), second = all_reduce(async(comm), b);
    auto const until = detail::deadline::after(std::chrono::seconds(20));
    while (!second.done() && !until.passed()) {
      auto const memory = comm.template allocate<int>(1000);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    expect(first.done() && second.done() && !second.exception(), "the thread has not moved a call");
    expect(a.back() == comm.size() && b[2] == comm.size(), "a sum is wrong");
    barrier(comm);
  }
}

// A progress_thread also begins large calls, so that a start returns at once, whatever others have sent by then.
template <class Comm>
void check_start_of_large_call(Comm& comm) {
  expect(!has_progress_thread(comm) || comm.size() == 1, "there is a progress_thread of another test");
  barrier(comm);
  {
    progress_thread const moves_calls;
    expect(has_progress_thread(comm), "the progress_thread is not known");
    std::atomic<int> combined_here{0};
    auto const add = [&combined_here, here = std::this_thread::get_id()](int a, int b) {
      if (std::this_thread::get_id() == here) combined_here.fetch_add(1, std::memory_order_relaxed);
      return a + b;
    };
    std::vector<int> a(200000, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * comm.rank()));
    work const sum = all_reduce(async(comm), a, add);
    auto const until = detail::deadline::after(std::chrono::seconds(20));
    while (!sum.done() && !until.passed()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    expect(sum.done() && a[199999] == comm.size(), "the sum is wrong");
    expect(combined_here == 0 || comm.size() == 1, "the start of a large call combined data itself");
    barrier(comm);
  }
}

// Closing a communicator waits for its started calls, also for those whose work nobody has kept.
template <class Comm>
void check_closing(Comm& comm) {
  std::vector<int> a(30000, 1), dropped(30000, 1);
  int const ranks = comm.size();
  work left;
  {
    Comm closed = std::move(comm);
    static_cast<void>(all_reduce(async(closed), dropped));
    left = all_reduce(async(closed), a);
    static_cast<void>(all_reduce(async(closed), dropped));
  }
  expect(left.done() && left.test() && a[29999] == ranks, "a call was cut off");
  expect(dropped[29999] == ranks * ranks, "a call whose work was dropped was cut off");
}

// An exception destroys the memory of a call before its communicator. Not for threads, because peers may be reading it.
template <class Comm>
void check_unwinding(Comm& comm) {
  bool const thrower = comm.rank() == 0;
  try {
    Comm closed = of_all(comm);
    std::vector<int> data(2000000, 1);
    work const left = all_reduce(async(closed), data);
    if (thrower) throw std::runtime_error("enough");
    work(left).wait();
  } catch (error const& e) {
    expect_error(e, error_code::rank_left, "rank 0 gave up");
  } catch (std::runtime_error const&) {
    expect(thrower, "another rank has thrown");
  }
}

}  // namespace tutti::testing
