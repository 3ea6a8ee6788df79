// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A start of what was prepared allocates nothing, from the second on, nor does waiting for it. This counts allocations of the
// program that includes it, once.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "started/async.hpp"
#include "support/replaced_new.hpp"
#include "support/sanitized.hpp"

namespace tutti::testing {

inline thread_local int allocations = 0;
void note_allocation(std::size_t) { ++allocations; }

// Says so where that is of no use.
inline bool allocates_otherwise() {
  if (sanitized) MESSAGE("skipped: a sanitizer allocates");
  return sanitized;
}

// All collectives at once, and messages whose receives are started before.
template <class Comm>
void be_quiet(Comm& comm) {
  constexpr int rounds = 300;
  int const p = comm.size(), right = (comm.rank() + 1) % p, left = (comm.rank() + p - 1) % p;
  for (std::size_t const count : {3u, 20000u}) {
    using calls = every_call<int, sum>;
    calls const kind(comm.rank(), p, count, {});
    std::deque<calls::buffers> buffers;
    std::vector<persistent> receives, rest;
    for (int k = 0; k < calls::kinds; ++k)
      rest.push_back(kind.call(k, prepared(comm), buffers.emplace_back(kind.make(k))));
    for (int const tag : {1, 2, 3}) {
      receives.push_back(recv(prepared(comm), buffers.emplace_back(kind.make(0)).in, left, tag));
      rest.push_back(send(prepared(comm), buffers.emplace_back(kind.make(0)).in, right, tag));
    }
    auto const round = [&] {
      for (auto& operation : receives) operation.start();
      barrier(comm);
      for (auto& operation : rest) operation.start();
      for (auto& operation : receives) operation.wait();
      for (auto& operation : rest) operation.wait();
      barrier(comm);
    };
    for (int i = 0; i < 20; ++i) round();
    // How much is under way at once is chance, so lists may grow a few times more, but not for ever.
    int there = rounds;
    for (int attempt = 0; attempt < 5 && there >= rounds / 20; ++attempt) {
      int const before = allocations;
      for (int i = 0; i < rounds; ++i) round();
      there = all_reduce(comm, allocations - before, max{});
    }
    expect(there < rounds / 20, std::to_string(there) + " allocations with " + std::to_string(count) + " elements");
  }
  int const before = allocations;
  ::operator delete(::operator new(8));
  int const control = allocations - before;
  expect(control == 1, "an allocation was not counted");
}

}  // namespace tutti::testing
