// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Continuations of started calls (work::then), and numbers of calls. Each function is executed by every rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "started/async.hpp"

namespace tutti::testing {

template <class Comm>
void check_then(Comm& comm) {
  int const p = comm.size(), me = comm.rank();
  std::vector<int> a(3000, 1), b(5, 2);
  std::vector<int> seen;
  int beside = 0;
  work first = all_reduce(async(comm), a);
  work last = first.then([&] { seen.push_back(a[2999]); }).then([&] { seen.push_back(-1); });
  work another = first.then([&] { beside += a[0]; });
  last.wait();
  another.wait();
  expect(first.done() && seen == std::vector{p, -1} && beside == p,
         "what follows has not run once, in order, after its call");
  int at_once = 0;
  static_cast<void>(first.then([&] { ++at_once; }));
  work().then([&] { ++at_once; }).wait();
  expect(at_once == 2, "what follows a call that has ended has not run at once");

  // It starts further calls, and a blocking call waits for it.
  work inner;
  bool ran = false;
  static_cast<void>(all_reduce(async(comm), b).then([&] {
    inner = all_reduce(async(comm), a);
    ran = true;
  }));
  barrier(comm);
  expect(ran && inner.done() && a[0] == p * p && b[4] == 2 * p, "what a continuation started has not ended");

  // A chain that starts itself. On a single rank, whose calls end at once, it must not recurse ever deeper.
  int const most = p == 1 ? 100000 : 20;
  int rounds = 0;
  std::function<void()> next = [&] {
    if (++rounds < most) static_cast<void>(barrier(async(comm)).then(next));
  };
  next();
  barrier(comm);
  expect(rounds == most, "a blocking call has not waited for a chain");

  int const right = (me + 1) % p, left = (me + p - 1) % p;
  std::vector<int> out(70000, me), in(70000);
  int got = -1;
  work received = irecv(comm, in, left).then([&] { got = in[69999]; });
  send(comm, out, right);
  received.wait();
  expect(got == left, "what follows a receive has not seen its message");
}

// An exception is passed on to the continuations.
template <class Comm>
void check_then_throws(Comm& comm) {
  std::vector<int> ones(10, 1);
  work sum_of_all = all_reduce(async(comm), ones);
  work throws = sum_of_all.then([] { throw std::runtime_error("enough"); });
  bool called = false;
  work after = throws.then([&] { called = true; });
  for (work& w : std::vector{throws, after}) {
    std::string what;
    try {
      w.wait();
    } catch (std::runtime_error const& e) {
      what = e.what();
    }
    expect(what == "enough" && w.exception(), "what a continuation has thrown is lost");
  }
  sum_of_all.wait();
  work ended = sum_of_all.then([] { throw std::runtime_error("enough"); });
  expect(!called && ended.done() && ended.exception(), "an exception of a continuation that runs at once is lost");

  if (comm.size() > 1) {
    work waits_for_itself = all_reduce(async(comm), ones).then([&] { barrier(comm); });
    expect_error(error_of([&] { waits_for_itself.wait(); }), error_code::bad_argument, "and so waits for itself");
    work within = all_reduce(async(comm), ones).then([&] { work().then([&] { barrier(comm); }).wait(); });
    expect_error(error_of([&] { within.wait(); }), error_code::bad_argument, "and so waits for itself");
  }
}

template <class Comm>
void check_then_after_fault(Comm& comm) {
  Comm sound = of_all(comm);  // a rank that is still in the call before would get the fault too
  barrier(sound);
  std::vector<int> uneven(static_cast<std::size_t>(comm.rank() + 1));
  bool called = false;
  work follows = all_reduce(async(comm), uneven).then([&] { called = true; });
  expect_error(error_of([&] { follows.wait(); }), error_code::mismatch, "ranks disagree in call #1");
  expect_error(error_of([&] { follows.then([&] { called = true; }).wait(); }), error_code::mismatch, "call #1");
  expect(!called, "what follows a call has run though that went wrong");
}

// No thread of this rank polls: the progress_thread runs the continuation, and closing waits for it.
template <class Comm>
void check_then_elsewhere(Comm& comm) {
  std::vector<int> a(1000, 1), b(1000, 1);
  {
    progress_thread const moves_calls;
    std::atomic<int> sum{0};
    static_cast<void>(all_reduce(async(comm), a).then([&] { sum = a[999]; }));
    auto const until = detail::deadline::after(std::chrono::seconds(20));
    while (sum == 0 && !until.passed()) std::this_thread::yield();
    expect(sum == comm.size(), "the thread has not run what follows a call");
    barrier(comm);
  }
  int ran = 0;
  {
    Comm closed = of_all(comm);
    static_cast<void>(all_reduce(async(closed), b).then([&] { ran = b[0]; }));
  }
  expect(ran == comm.size(), "a communicator was closed before what follows its call had run");
}

// The parts of a batch may end while it is started within a continuation; the batch ends only after that.
template <class Comm>
void check_then_starts_batch(Comm& comm) {
  std::vector<int> a(1, comm.rank() + 1), b(a), c(a);
  batch all(comm);
  broadcast(all, b, 0);
  broadcast(all, c, 0);
  int at_the_end = 0;
  work last = broadcast(async(comm), a, 0).then([&] {
    static_cast<void>(all.start().then([&] { at_the_end = b[0] + c[0]; }));
  });
  last.wait();
  barrier(comm);  // waits for what follows
  expect(at_the_end == 2, "what follows a batch has not run, or too early");
}

template <class Comm>
void check_sequence(Comm& comm) {
  std::vector<int> a(10, 1);
  work first = all_reduce(async(comm), a), second = barrier(async(comm));
  second.wait();
  if (comm.size() > 1)
    expect(first.sequence() == 1 && second.sequence() == 2, "calls have other numbers than their place");
  barrier(comm);
  work fourth = all_reduce(async(comm), a);
  fourth.wait();
  expect(fourth.sequence() == (comm.size() > 1 ? 4u : 0u), "a call after a blocking one has another number");
  work to_self = irecv(comm, a, comm.rank());
  send(comm, std::vector(3, 1), comm.rank());
  to_self.wait();
  expect(to_self.sequence() == 0 && work().sequence() == 0 && fourth.then([] {}).sequence() == 0,
         "what is no call of all ranks has a number");
}

}  // namespace tutti::testing
