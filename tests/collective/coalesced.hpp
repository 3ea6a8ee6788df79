// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays, and batches, over one transport. Each function is executed by every rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

inline std::vector<std::vector<long>> arrays_of(int rank) {
  std::vector<std::vector<long>> out;
  for (std::size_t const count : {3u, 0u, 1u, 500u, 40u, 40u, 70000u, 8u, 0u, 0u, 1000u, 4099u, 1u}) {
    auto& array = out.emplace_back(count);
    for (std::size_t k = 0; k < count; ++k) array[k] = static_cast<long>(k * 3 + out.size()) + rank;
  }
  return out;
}

// The number of calls of all ranks that a rank has made, including this one.
template <class Comm>
std::uint64_t number_of_calls(Comm& comm) {
  work last = barrier(async(comm));
  last.wait();
  return last.sequence();
}

template <class Comm>
void check_lists_of_arrays(Comm& comm) {
  auto wanted = arrays_of(comm.rank());
  for (auto& array : wanted) all_reduce(comm, array);
  for (std::size_t const bytes : {0u, 1u, 64u, 5000u, 1u << 16, 1u << 20, 1u << 26}) {
    auto list = arrays_of(comm.rank());
    all_reduce(comm, list, sum{}, {}, {.bucket_bytes = bytes});
    expect(list == wanted, "buckets of " + std::to_string(bytes) + " bytes give another sum");
    list = arrays_of(comm.rank());
    work all = all_reduce(async(comm), list, sum{}, {}, {.bucket_bytes = bytes});
    all.wait();
    expect(list == wanted, "buckets of " + std::to_string(bytes) + " bytes give another sum when they are started");
  }
  auto owners = arrays_of(comm.rank());
  std::vector<std::span<long>> spans(owners.begin(), owners.end());
  all_reduce(comm, spans);
  expect(owners == wanted, "spans give another sum");
  owners = arrays_of(comm.rank());
  all_reduce(comm, owners | std::views::transform([](auto& array) { return std::span(array); }));
  expect(owners == wanted, "a view of spans gives another sum");
  std::vector<std::vector<long>> nothing;
  all_reduce(comm, nothing);

  std::vector<std::vector<float>> many(100, std::vector<float>(10, 1));
  all_reduce(comm, many, tutti::mean{});
  expect(many[99][9] == 1, "a mean is wrong");
  all_reduce(async(comm), many, tutti::premultiplied_sum(2.0f)).wait();
  expect(many[99][9] == 2.0f * static_cast<float>(comm.size()), "a sum with a state is wrong");
  all_reduce(async(comm), nothing).wait();

  std::vector<int> tied(5, 1);  // weights that two layers share
  std::vector<std::span<int>> const twice{tied, tied};
  all_reduce(async(comm), twice).wait();
  expect(tied[4] == comm.size(), "an array that a list names twice is wrong");
}

// Messages around a ring and collectives of several kinds and types, in several rounds.
template <class Comm>
void check_batches(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  auto const ranks = static_cast<std::size_t>(p);
  auto arrays = arrays_of(me);
  auto wanted = arrays;
  for (auto& array : wanted) all_reduce(comm, array);
  std::vector<float> in(3, 1), out(3), more(7, 2), most(300, 3);
  std::vector<int> from_left(30000), to_right(30000), own{me}, of_all(ranks), told(5);
  batch all(comm, {.bucket_bytes = 4096});
  all_reduce(all, in, out);
  all.recv(from_left, left, 3);
  for (auto& array : arrays) all_reduce(all, array);
  all_gather(all, own, of_all);
  all_reduce(all, most, max{});
  all_reduce(all, more);
  broadcast(all, told, p - 1);
  barrier(all);
  all.send(to_right, right, 3);
  for (int round = 0; round < 6; ++round) {
    std::uint64_t const before = number_of_calls(comm);
    auto const fresh = arrays_of(me);
    for (std::size_t i = 0; i < fresh.size(); ++i) std::ranges::copy(fresh[i], arrays[i].begin());
    std::ranges::fill(in, static_cast<float>(round));
    std::ranges::fill(more, 2.0f);
    std::ranges::fill(to_right, 1000 * round + me);
    told.assign(5, me);
    std::vector<received> got;
    if (round % 2 == 0) {
      got = all.run();
    } else {
      batch_work started = all.start();
      if (round == 3) barrier(comm);
      got = started.get();
      expect(started.done() && !started.exception(), "a batch that has ended says that it has not");
    }
    expect(got == std::vector{received{left, 3, 30000}}, "a batch has received something else");
    expect(from_left[29999] == 1000 * round + left && of_all[ranks - 1] == p - 1 && told[4] == p - 1,
           "values of a batch are wrong");
    expect(arrays == wanted, "sums of a batch are wrong");
    expect(out[2] == static_cast<float>(round * p) && in[2] == static_cast<float>(round) &&
               more[6] == 2 * static_cast<float>(p) && most[299] == 3,
           "sums of other types in a batch are wrong");
    // Sums of floats share a call, sums of longs are in calls three and four by themselves; then all_gather, max,
    // broadcast, barrier, and the call that counts.
    std::uint64_t const calls = number_of_calls(comm) - before;
    expect(p == 1 || calls == (round == 3 ? 14 : 13), std::to_string(calls) + " calls of a batch");
  }
}

// Only its own rank knows whether an array has gaps, so ranks make the same calls whether there are any or not.
template <class Comm>
void check_batches_of_columns(Comm& comm) {
  constexpr std::size_t count = 10;
  std::size_t const stride = comm.rank() == 0 ? 1 : 2;
  std::vector<int> a(stride * count, 1), b(stride * count, 2);
  batch all(comm);
  for (auto* const matrix : {&a, &b}) all_reduce(all, strided(matrix->data(), count, static_cast<int>(stride)));
  all.run();
  std::size_t const last = stride * (count - 1);
  expect(a[last] == comm.size() && b[last] == 2 * comm.size(), "sums of columns in a batch are wrong");
}

// Two batches in flight, one of which is destroyed at once.
template <class Comm>
void check_batches_in_flight(Comm& comm) {
  std::vector<int> a(1000, 1), b(10, 1), c(10, 2);
  work first;
  {
    batch one(comm);
    all_reduce(one, a);
    all_reduce(one, b);
    first = one.start();
  }
  for (bool const same : {true, false}) {
    batch dependent(comm);
    all_reduce(dependent, a);
    all_reduce(dependent, b);
    if (same) all_reduce(dependent, a);
    else all_reduce(dependent, std::span(a).subspan(995), std::span(c).first(5));
    expect_error(error_of([&] { dependent.run(); }), error_code::bad_argument,
                 "all_reduces start together, and number 3 of them uses memory that number 1 also uses");
  }
  batch other(comm);
  all_reduce(other, c);
  barrier(other);
  static_cast<void>(other.start());
  expect_error(error_of([&] {
                 static_cast<void>(other.start());
                 static_cast<void>(other.start());
               }),
               error_code::bad_argument, "a prepared call was started again");
  barrier(comm);
  first.wait();
  expect(a[999] == comm.size() && b[9] == comm.size(), "a batch has not gone on after its list went");
  batch none(comm);
  expect(none.run().empty() && none.start().get().empty(), "a batch of nothing has got something");
}

}  // namespace tutti::testing
