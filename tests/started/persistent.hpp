// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls and messages that are prepared, over one transport: every start does what a call does that is made once. Each function
// is what a rank does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "started/async.hpp"

namespace tutti::testing {

// All collectives are prepared once and started in several rounds, in ever other orders, with other calls between them, and
// waited for in an order of each rank's own.
template <class T, class Op, class Comm>
void check_prepared(Comm& comm, std::size_t count, options const& o, unsigned seed) {
  using calls = every_call<T, Op>;
  calls const kind(comm.rank(), comm.size(), count, o);
  std::deque<typename calls::buffers> expected, got;
  for (int k = 0; k < calls::kinds; ++k) kind.call(k, comm, expected.emplace_back(kind.make(k)));
  std::vector<persistent> operations;
  for (int k = 0; k < calls::kinds; ++k)
    operations.push_back(kind.call(k, prepared(comm), got.emplace_back(kind.make(k))));

  std::mt19937 shared(seed), own(seed + static_cast<unsigned>(comm.rank()));
  std::vector<std::size_t> order(calls::kinds);
  std::iota(order.begin(), order.end(), 0u);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::pair<std::size_t, work>> started;
    typename calls::buffers once = kind.make(0);
    std::ranges::shuffle(order, shared);
    for (std::size_t const k : order) {
      auto const fresh = kind.make(static_cast<int>(k));
      std::ranges::copy(fresh.in, got[k].in.begin());
      std::ranges::copy(fresh.out, got[k].out.begin());
      operations[k].start();
      started.emplace_back(k, operations[k]);
      if (shared() % 7 == 0) barrier(comm);
      if (shared() % 7 == 0) kind.call(0, async(comm), once).wait();
    }
    std::ranges::shuffle(started, own);
    for (auto& [k, w] : started) {
      if (own() % 2 == 0) operations[k].wait();
      else
        while (!w.test()) std::this_thread::yield();
    }
    for (std::size_t k = 0; k < got.size(); ++k)
      expect(std::ranges::equal(got[k].out, expected[k].out, same_bits<T>),
             "collective " + std::to_string(k) + " of " + std::to_string(count) +
                 " elements has another result in round " + std::to_string(round) + " of a prepared one");
  }
}

template <class T, class Op, class Comm>
void check_all_prepared(Comm& comm) {
  unsigned seed = 0;
  for (std::size_t const count : {0u, 1u, 7u, 300u, 20000u}) check_prepared<T, Op>(comm, count, {}, ++seed);
  check_prepared<T, Op>(comm, 5000, {.protocol = protocol::staged}, ++seed);
}

// Around a ring, small and large, with calls beside them.
template <class Comm>
void check_prepared_messages(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{4099}, std::size_t{300000}}) {
    std::vector<int> out(count), in(count + 3), a(100, 1);
    persistent sent = send(prepared(comm), out, right, 5);
    persistent_receive incoming = recv(prepared(comm), in, any_source, any_tag);
    persistent nowhere = send(prepared(comm), out, no_rank);
    persistent_receive nothing = recv(prepared(comm), in, no_rank);
    persistent sum_of_all = all_reduce(prepared(comm), a, max{});
    for (int round = 0; round < 6; ++round) {
      std::ranges::fill(out, me + round);
      std::vector<std::reference_wrapper<persistent>> starts{sent, nowhere, nothing, sum_of_all};
      starts.insert(starts.begin() + round % 3, incoming);
      for (persistent& operation : starts) operation.start();
      if (round % 2 == 0) barrier(comm);
      sent.wait();
      expect(incoming.get() == received{left, 5, count}, "a prepared receive has got something else");
      nowhere.wait();
      expect(nothing.get() == received{no_rank, any_tag, 0}, "a receive from no rank has got something");
      sum_of_all.wait();
      expect(std::ranges::all_of(std::span(in).first(count), [&](int x) { return x == left + round; }) && a[99] == 1,
             "a prepared message has other elements");
    }
  }
}

template <class Comm>
void check_prepared_wrong(Comm& comm) {
  std::vector<int> ones(10, 1), out(10), wrong(9);
  expect_error(error_of([&] { return all_reduce(prepared(comm), ones, wrong); }), error_code::bad_argument,
               "the output of all_reduce has 9 elements, but");
  persistent call = all_reduce(prepared(comm), ones, out);
  persistent message = send(prepared(comm), ones, comm.rank()), receive = recv(prepared(comm), out, comm.rank());
  expect(call.done() && call.test(), "what was never started has not ended");
  for (persistent* operation : {&call, &receive}) {
    operation->start();
    error const again = error_of([&] { operation->start(); });
    expect_error(again, error_code::bad_argument, "a prepared call was started again");
    expect_error(again, error_code::bad_argument, "[rank " + std::to_string(comm.rank()) + "]");
    if (operation == &receive) message.start();
    operation->wait();
  }
  message.wait();
  expect(out[9] == 1, "a message to itself is wrong");

  // The end may be seen by any handle, and by what follows.
  work const also = call;
  call.start();
  while (!also.done()) call.advance();
  int rounds = 0;
  std::function<void()> again = [&] {
    if (++rounds == 10) return;
    call.start();
    static_cast<void>(call.then(again));
  };
  call.start();
  static_cast<void>(call.then(again));
  barrier(comm);
  call.wait();
  expect(rounds == 10 && out[9] == comm.size(), "an operation was not started again by what follows it");
  persistent empty;
  expect_error(error_of([&] { empty.start(); }), error_code::bad_argument, "that is empty or was moved from");
  empty.wait();
  batch first(comm), second(std::move(first));
  expect_error(error_of([&] { first.run(); }), error_code::bad_argument, "this batch was moved from");

  if (comm.size() == 1) return;
  std::uint64_t const before = call.sequence();
  call.start();
  call.wait();
  expect(call.sequence() == before + 2, "a start has another number than its place");
}

// Errors are those of every call, and of each start.
template <class Comm>
void check_prepared_fault(Comm& comm) {
  Comm sound = of_all(comm);
  barrier(sound);
  std::vector<int> uneven(static_cast<std::size_t>(comm.rank() + 1)), ones(3, 1);
  persistent fits = all_reduce(prepared(comm), ones), does_not = all_reduce(prepared(comm), uneven);
  persistent message = send(prepared(comm), ones, (comm.rank() + 1) % comm.size());
  fits.start();
  fits.wait();
  barrier(sound);
  does_not.start();
  expect_error(error_of([&] { does_not.wait(); }), error_code::mismatch, "ranks disagree in call #2");
  expect(does_not.exception() != nullptr, "an error is not kept");
  for (persistent* again : {&fits, &does_not}) {
    again->start();
    expect_error(error_of([&] { again->wait(); }), error_code::mismatch, "ranks disagree in call #2");
  }
  expect_error(error_of([&] { message.start(); }), error_code::mismatch, "ranks disagree in call #2");
}

// What refers to a communicator may be destroyed after it, and is refused until then.
template <class Comm>
void check_outlived(Comm& comm) {
  std::vector<int> data(4, 1), more(4, 1);
  std::optional<Comm> gone(of_all(comm));
  auto memory = gone->template allocate<int>(3);
  persistent sum = all_reduce(prepared(*gone), data);
  persistent message = send(prepared(*gone), data, gone->rank());
  persistent receive = recv(prepared(*gone), more, gone->rank());
  batch all(*gone), messages(*gone);
  all_reduce(all, data);
  all_reduce(all, more);  // they share a bucket
  all.run();
  messages.send(data, gone->rank()).recv(more, gone->rank());
  std::string const here = "[rank " + std::to_string(gone->rank()) + "]";
  gone.reset();
  for (persistent* const call : {&sum, &message, &receive}) {
    error const late = error_of([&] { call->start(); });
    expect_error(late, error_code::bad_argument, "after its communicator was destroyed");
    expect_error(late, error_code::bad_argument, here);
  }
  for (auto* const calls : {&all, &messages}) {
    expect_error(error_of([&] { calls->run(); }), error_code::bad_argument, here);
    expect_error(error_of([&] { calls->start(); }), error_code::bad_argument, "after its communicator was destroyed");
    error const e = error_of([&] { barrier(*calls); });
    expect_error(e, error_code::bad_argument, "after its communicator was destroyed");
    expect(std::string_view(e.where().file_name()).ends_with("persistent.hpp"),
           "the error names a line of the library");
  }
}

// Batches and prepared calls stay with a communicator that is moved.
template <class Comm>
void check_moved_along(Comm& comm) {
  int const p = comm.size(), me = comm.rank();
  std::optional<Comm> first(of_all(comm));
  std::vector<int> data(4, 1), more(4, 1), out(3, me), in(3);
  persistent sum = all_reduce(prepared(*first), data);
  batch all(*first);
  all_reduce(all, more);
  all_reduce(all, data);
  all.send(out, (me + 1) % p).recv(in, (me + p - 1) % p);
  Comm const second(std::move(*first));
  first.reset();
  barrier(all);
  sum.start();
  sum.wait();
  batch moved(std::move(all));
  moved.run();
  moved.start().wait();
  expect(data == std::vector<int>(4, p * p * p) && more == std::vector<int>(4, p * p), "another sum");
  expect(in == std::vector<int>(3, (me + p - 1) % p), "another message");
}

}  // namespace tutti::testing
