// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TUTTI_CHECK=buffers, over one transport: who uses the memory of a call that has not ended is told, and nobody else. Each
// function is what a rank does.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "fault/mismatches.hpp"
#include "started/persistent.hpp"

namespace tutti::testing {

// Of receives that cannot end, since nobody sends before all ranks have tried.
template <class Comm>
void check_overlaps(Comm& comm) {
  int const p = comm.size(), me = comm.rank();
  auto const ranks = static_cast<std::size_t>(p);
  std::vector<int> a(10, 1), b(10 * ranks), c(10 * ranks, 2), d(10, 3);
  Comm other = of_all(comm);
  std::vector<int> const in(7, me);
  std::vector<int> got(7);
  work late = irecv(comm, got, (me + p - 1) % p, 5);
  auto const refused = [&](auto&& call, std::string const& words) {
    expect_error(error_of(call), error_code::buffer_in_use, words);
  };
  refused([&] { return all_reduce(async(comm), got); }, "all_reduce writes memory that recv, started on rank ");
  refused([&] { return all_reduce(async(other), std::span(got).first(3), std::span(a).first(3)); },
          "all_reduce reads memory that recv, started on rank ");
  refused([&] { static_cast<void>(irecv(comm, std::span(got).last(1), 0, 9)); }, "recv writes memory that recv, ");
  refused([&] { static_cast<void>(isend(comm, std::span(got).subspan(3, 2), 0, 9)); }, "buffer_check.hpp:");
  refused([&] { return broadcast(async(comm), got, me); }, "broadcast reads memory that recv, ");
  refused([&] { return all_gather(async(comm), std::span(got).first(1), std::span(b).first(ranks)); },
          "all_gather reads");
  persistent prepared_sum = all_reduce(prepared(comm), got, max{});
  refused([&] { prepared_sum.start(); }, "all_reduce writes memory that recv, ");
  std::vector<std::vector<int>> list(3, std::vector<int>(5));
  work late_too = irecv(comm, std::span(list[1]).first(1), (me + p - 1) % p, 6);
  refused([&] { return all_reduce(async(comm), list); }, "all_reduce writes memory that recv, ");
  batch all(comm);
  all_reduce(all, got);
  refused([&] { return all.start(); }, "all_reduce writes memory that recv, ");
  batch half(comm);  // what it has started before ends before it throws
  all_reduce(half, d);
  all_reduce(half, got, max{});
  refused([&] { half.run(); }, "all_reduce writes memory that recv, ");
  for (int turn = 0; turn < 2; ++turn) refused([&] { return half.start(); }, "all_reduce writes memory that recv, ");
  all_reduce(async(comm), d).wait();
  barrier(comm);  // nobody sends before
  send(comm, in, (me + 1) % p, 5);
  send(comm, std::span(in).first(1), (me + 1) % p, 6);
  late.wait();
  late_too.wait();
  // Now it may be used.
  prepared_sum.start();
  prepared_sum.wait();
  all.run();

  // The same memory may be read by many, and its other parts be used.
  std::vector<std::size_t> counts(ranks, 2), even(ranks), odd(ranks);
  for (std::size_t q = 0; q < ranks; ++q) even[q] = 4 * q, odd[q] = 4 * q + 2;
  std::vector<int> mixed(4 * ranks);
  std::vector<work> works{
      all_gather(async(comm), a, b),
      all_reduce(async(comm), a, d),
      all_to_all(async(comm), c),
      all_gather_v(async(comm), std::span(a).first(2), mixed, counts, even),
      all_gather_v(async(comm), std::span(a).last(2), mixed, counts, odd),
  };
  wait_for_all(works);

  // Elements between those of a strided array may be used, the same elements may not.
  auto const column = [&](std::size_t first, std::size_t rows) { return strided(mixed.data() + first, rows, 4); };
  std::vector<work> columns{all_reduce(async(comm), column(0, ranks)), all_reduce(async(comm), column(1, ranks))};
  wait_for_all(columns);
  std::vector<int> wide(8 * ranks);
  auto const every_other = strided(wide.data(), 4 * ranks, 2);
  std::vector<work> blocks{gather_v(async(comm), std::span(a).first(2), every_other, counts, even),
                           gather_v(async(comm), std::span(a).last(2), every_other, counts, odd)};
  wait_for_all(blocks);
  late = irecv(comm, column(0, 2), (me + p - 1) % p, 5);
  refused([&] { return all_reduce(async(comm), column(0, 2)); },
          "all_reduce writes memory that recv, started on rank ");
  all_reduce(async(comm), column(1, 2)).wait();
  barrier(comm);
  send(comm, std::span(in).first(1), (me + 1) % p, 5);
  late.wait();
}

// Rank 1 uses memory that a receive is about to write, and the exception closes its communicator: its peers learn why.
template <class Comm>
void check_peers_of_refused(Comm& comm) {
  bool const uses = comm.rank() == 1;
  std::vector<int> got(7), others(7);
  work late;
  if (uses) late = irecv(comm, got, 0, 5);
  auto const check = [&](auto&& call, std::string const& reason) {
    error const e = shared_error(
        comm,
        [&](auto& group) {
          Comm closes_here(std::move(*group));
          call(closes_here, uses ? got : others);
        },
        !uses);
    expect_error(e, uses ? error_code::buffer_in_use : error_code::rank_left, reason);
    if (!uses) expect_error(e, error_code::rank_left, "a call of rank 1 was refused: ");
  };
  check([](auto& c, auto& memory) { all_reduce(async(c), memory).wait(); }, "all_reduce writes memory that recv, ");
  check(
      [&](auto& c, auto& memory) {
        if (uses) isend(c, memory, 0).wait();
        else recv(c, memory, 1);
      },
      "send reads memory that recv, ");
  if (comm.rank() == 0) send(comm, others, 1, 5);
  if (uses) late.wait();
}

template <class Comm>
void check_changes(Comm& comm) {
  int const p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
  std::vector<int> out(200000, 1), in(200000);
  work sends = isend(comm, out, right);
  out[7] = 2;
  barrier(comm);  // nobody receives before
  recv(comm, in, left);
  expect_error(error_of([&] { sends.wait(); }), error_code::buffer_in_use, "an input of send was changed before");
  out[7] = 1;
  persistent again = send(prepared(comm), out, right);
  for (int round = 0; round < 2; ++round) {
    out[7] = round;
    again.start();
    recv(comm, in, left);
    again.wait();
    expect(in[7] == round, "a message has another element");
  }
  barrier(comm);
}

}  // namespace tutti::testing
