// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that run out of memory for messages. Only one source of a program may include it, because it replaces operator new.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/replaced_new.hpp"
#include "tutti/tutti.hpp"

namespace {
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
thread_local std::size_t max_at_once = unlimited;
}  // namespace

void tutti::testing::note_allocation(std::size_t bytes) {
  if (bytes > max_at_once) throw std::bad_alloc();
}

namespace tutti::testing {

// A rank that is told nothing gets a timeout instead.
inline constexpr options patient{.timeout = std::chrono::seconds(20)};

template <class F>
bool is_short_of_memory(F&& f) {
  try {
    f();
  } catch (std::bad_alloc const&) {
    return true;
  }
  return false;
}

// A message for which rank 1 has no receive yet, and of which it can keep no copy: it waits for a later one. Meanwhile rank 0
// waits for a message of rank 1, and rank 2 for all.
template <class Comm, class Receive>
void send_what_cannot_be_kept(Comm& comm, std::size_t bytes, std::size_t memory, std::string const& told,
                              Receive&& receive) {
  std::vector<char> sent(bytes), got(bytes);
  if (comm.rank() == 1) {
    max_at_once = memory;
    bool const is_short = is_short_of_memory([&] { receive(comm, got); });
    max_at_once = unlimited;
    expect(is_short, "rank 1 lacks no memory");
    expect_error(error_of([&] { barrier(comm, patient); }), error_code::rank_left, told);
    return;
  }
  error const e = error_of([&] {
    if (comm.rank() == 0) send(comm, sent, 1, 1);
    if (comm.rank() == 0) recv(comm, got, 1, 0, patient);
    else barrier(comm, patient);
  });
  expect_error(e, error_code::rank_left, told);
  expect(e.peer() == 1, "the rank without memory is not named");
}

}  // namespace tutti::testing
