// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke, agree and shrink over one transport while ranks leave; each function is executed by every rank.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Returns when no rank is in the call any more, so a later fault interrupts nobody in it.
template <class Comm>
void expect_sum(Comm& comm) {
  std::vector<int> ones(1000, 1);
  all_reduce(comm, ones);
  expect(ones[999] == comm.size(), "a sum is wrong");
  comm.agree();
}

// A rank revokes while the others wait in a call, have started some, or do something else.
template <class Comm>
void check_revoke(Comm& comm) {
  int const rank = comm.rank(), last = comm.size() - 1;
  auto sound = std::move(*comm.split(0));
  expect_sum(comm);
  std::string const words = "rank " + std::to_string(last) + " has revoked the communicator: enough";
  auto const refused = [&](auto&& call) {
    error const e = error_of(call);
    expect_error(e, error_code::revoked, words);
    expect(e.peer() == last, "the wrong rank is to blame");
  };
  if (rank == last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm.revoke("enough");
    comm.revoke("more than enough");
  } else if (rank == 0) {
    refused([&] { expect_sum(comm); });
  } else if (rank == 1) {
    std::vector<int> a(1000), b(10);
    work first = all_reduce(async(comm), a), second = all_reduce(async(comm), b);
    refused([&] { second.wait(); });
    refused([&] { first.wait(); });
  }
  barrier(sound);
  refused([&] { barrier(comm); });
  refused([&] { barrier(async(comm)).wait(); });
  expect(comm.agree(rank == 0 ? 6 : 3).flags == (comm.size() > 1 ? 2 : 6), "the flags are wrong");
  auto again = comm.shrink();
  expect(again.size() == last + 1 && again.rank() == rank, "nobody has gone, and shrink has lost somebody");
  expect_sum(again);
}

// Without a fault: agreements between calls, and while started calls are in progress.
template <class Comm>
void check_agree(Comm& comm) {
  for (int round = 0; round < 200; ++round) {
    std::vector<int> ones(50, 1);
    work const sum = all_reduce(async(comm), ones);
    agreement const all = comm.agree(~(1 << comm.rank()));
    expect(all.flags == ~((1 << comm.size()) - 1) && all.gone.empty(), "an agreement is wrong");
    work(sum).wait();
    if (round % 10 == 0) expect_sum(comm);
  }
}

// Ranks leave one after another, the highest first, and the others continue.
template <class Comm>
void check_shrink_to_one(Comm all) {
  int const before = all.rank(), ranks = all.size();
  for (int left = ranks; left > 1; --left) {
    expect_sum(all);
    if (all.rank() == left - 1) return;
    if (left % 2 == 0) {  // otherwise the first rank to learn of it is the first to call shrink
      error const e = error_of([&] { barrier(all); });
      bool const knows = e.code() == error_code::rank_left && e.peer() == left - 1;
      expect(knows, std::string("not the rank that has left: ") + e.what());
    }
    expect(all.agree().gone == std::vector{left - 1}, "another rank has gone");
    Comm rest = all.shrink();
    expect_error(error_of([&] { barrier(all); }), error_code::revoked, "has shrunk this communicator to the ranks 0");
    expect_error(error_of([&] { static_cast<void>(all.shrink()); }), error_code::revoked,
                 "continue with the communicator that shrink()");
    expect(rest.size() == left - 1 && rest.rank() == before, "a rank is in the wrong place");
    expect(rest.survivors().size() == static_cast<std::size_t>(left - 1) && rest.survivors().back() == left - 2,
           "the survivors are others");
    all = std::move(rest);
  }
  expect_sum(all);
  all.revoke("the end");
  expect_error(error_of([&] { expect_sum(all); }), error_code::revoked, "rank 0 has revoked the communicator: the end");
}

// With a short TUTTI_TIMEOUT: rank 1 of 3 is late, and then on time.
template <class Comm>
void check_late_to_agree(Comm& comm) {
  auto sound = comm.subgroup({0, 1, 2});
  auto const missed = [&](int number) {
    error const e = error_of([&] { comm.agree(); });
    expect_error(e, error_code::timeout, "did not join agreement #" + std::to_string(number) + " in time: 1");
    expect(e.peer() == 1, "not the late rank is to blame");
  };
  for (int number = 1; number <= 2; ++number)
    for (bool const late : {false, true}) {
      if ((comm.rank() == 1) == late) missed(number);
      barrier(sound, {.timeout = std::chrono::seconds(60)});
    }
  expect(comm.agree(3).flags == 3, "an agreement after one that was given up is wrong");
  expect(comm.shrink().size() == 3, "nobody has gone");
}

// Rank 1 of 3 waits in subgroup for rank 0, which waits for it in agree or shrink.
template <class Comm>
void check_vote_instead_of_group(Comm& comm) {
  for (std::vector<int> const& members : {std::vector{0, 1}, std::vector{1, 0}}) {
    expect_sum(comm);
    if (comm.rank() == 1) {
      error const e = error_of([&] { static_cast<void>(comm.subgroup(members)); });
      expect_error(e, error_code::revoked, "rank 0 waits in agree or shrink, so it cannot join");
      expect(e.peer() == 0, "the wrong rank is to blame");
    }
    comm.agree();
  }
  if (comm.rank() == 2) return;
  error const e = error_of([&] {
    if (comm.rank() == 1) static_cast<void>(comm.subgroup({0, 1}));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the process of rank 2 has ended, too
    barrier(comm);
  });
  bool const knows = e.code() == error_code::rank_left && e.peer() == 2;
  expect(knows, std::string("not the rank that has left: ") + e.what());
  expect(comm.shrink().survivors() == std::vector{0, 1}, "the survivors are others");
}

// Rank 0 of 3 calls agree and the others call shrink.
template <class Comm>
void check_confusion(Comm& comm) {
  expect_sum(comm);
  error const e = error_of([&] {
    if (comm.rank() == 0) comm.agree();
    else static_cast<void>(comm.shrink());
  });
  expect_error(e, error_code::mismatch, "some ranks call agree and others call shrink; on one side are: ");
  auto rest = comm.shrink();
  expect(rest.size() == 3, "nobody has gone");
  expect(e.peer() >= 0 && broadcast(rest, e.peer()) == e.peer(), "ranks blame different ones");
}

}  // namespace tutti::testing
