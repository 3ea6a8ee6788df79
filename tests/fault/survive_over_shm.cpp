// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke, abort, agree and shrink over shm, and ranks that are killed during them.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "fault/survive.hpp"
#include "support/sanitized.hpp"
#include "support/system_calls.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Runs ranks of which the victims are killed; returns the error of run_local.
template <class F>
void run_with_victims(int ranks, std::vector<int> const& victims, F&& rank) {
  std::string said;
  try {
    run_local(ranks, rank);
  } catch (error const& e) {
    said = e.what();
  }
  CAPTURE(said);
  for (int r = 0; r < ranks; ++r) {
    CAPTURE(r);
    bool const failed = said.find("rank " + std::to_string(r) + " was ended by signal 9") != said.npos;
    CHECK(failed == (std::ranges::find(victims, r) != victims.end()));
  }
  CHECK(said.find("exit code") == said.npos);
}

}  // namespace

TEST_CASE("a communicator is revoked for all over shm") {
  for (int const ranks : {1, 2, 3, 8}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_revoke(comm); }));
}

TEST_CASE("ranks agree over shm") {
  for (int const ranks : {1, 2, 5, 8}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_agree(comm); }));
}

TEST_CASE("ranks that are left go on over shm, down to one") {
  for (int const ranks : {1, 2, 5, 8})
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_shrink_to_one(std::move(comm)); }));
}

TEST_CASE("who does not come to an agreement is named over shm") {
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_confusion(comm); }));
  ::setenv("TUTTI_TIMEOUT", "2", 1);
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_late_to_agree(comm); }));
  ::setenv("TUTTI_TIMEOUT", "20", 1);
}

TEST_CASE("who waits in subgroup for a rank that votes learns why over shm") {
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_vote_instead_of_group(comm); }));
}

TEST_CASE("survivors that cannot create their group learn which of them is to blame") {
  for (int const culprit : {0, 1})
    CHECK_NOTHROW(run_local(3, [culprit](auto& comm) {
      expect_sum(comm);
      if (comm.rank() == 2) return;
      error_of([&] { barrier(comm); });
      bool const lacks_files = comm.rank() == culprit;
      // Not by a limit of open files, of which UBSan needs one.
      if (lacks_files)
        expect(filter_system_calls({SYS_socket, SYS_memfd_create}, SECCOMP_RET_ERRNO | EMFILE, SECCOMP_RET_ALLOW),
               "no filter");
      error const e = error_of([&] { static_cast<void>(comm.shrink()); });
      std::string const others = "survivors could not create their group: " + std::to_string(culprit);
      expect_error(e, error_code::system, lacks_files ? "Too many open files" : others);
      expect(lacks_files || e.peer() == culprit, "the wrong rank is to blame");
    }));
}

TEST_CASE("a job is aborted for all, with the reason and the exit code") {
  for (int const culprit : {0, 2}) {
    std::string said;
    try {
      run_local(3, [&](auto& comm) {
        expect_sum(comm);
        if (comm.rank() == culprit) comm.abort("the disk is full", 7);
        std::string const words = "rank " + std::to_string(culprit) + " has aborted the job: the disk is full";
        error const e = error_of([&] { barrier(comm); });
        expect_error(e, error_code::revoked, words);
        expect_error(e, error_code::revoked, "; end this process too");
      });
    } catch (error const& e) {
      CHECK(e.peer() == culprit);
      said = e.what();
    }
    CHECK(said.find("rank " + std::to_string(culprit) + " ended with exit code 7") != said.npos);
  }
}

TEST_CASE("of ranks that are killed before or after their vote, all see the same") {
  for (int const votes : {0, 1, 2}) {
    CAPTURE(votes);
    run_with_victims(5, {1, 4}, [&](auto& comm) {
      expect_sum(comm);
      auto& g = comm.engine();
      if (comm.rank() % 3 == 1) {
        for (int i = 1; i < votes; ++i) comm.agree(6);
        if (votes > 0) g.transport().votes().cast(++g.agreements, {motion::agree, 6});
        ::raise(SIGKILL);
      }
      for (int i = 0; i < 4; ++i) {
        agreement const got = comm.agree(3);
        expect(got.flags == 3 || (got.flags == 2 && i < votes), "the flags are wrong");
        expect(got.gone == std::vector{1, 4} || i < votes, "the wrong ranks have gone");
        auto same = comm.subgroup({0, 2, 3});
        std::vector<int> least{got.flags}, most{got.flags};
        all_reduce(same, least, min{});
        all_reduce(same, most, max{});
        expect(least == most, "ranks have agreed on different flags");
      }
      auto rest = comm.shrink();
      expect(rest.survivors() == std::vector{0, 2, 3}, "the survivors are others");
      expect_sum(rest);
    });
  }
}

TEST_CASE("ranks are killed in a call, and in shrink at the latest") {
  for (int const ranks : {2, 5, 8})
    for (int round = 0; round < (sanitized ? 5 : 20); ++round) {
      int const first = round % ranks, second = (round + 1 + round / ranks) % ranks;
      run_with_victims(ranks, first == second || ranks == 2 ? std::vector{first} : std::vector{first, second},
                       [&](auto& comm) {
                         expect_sum(comm);
                         if (comm.rank() == first) ::raise(SIGKILL);
                         if (comm.rank() == second && ranks > 2) {
                           std::jthread([round] {
                             std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
                             ::raise(SIGKILL);
                           }).detach();
                         }
                         error const e = error_of([&] { barrier(comm); });
                         expect(e.code() == error_code::rank_lost && (e.peer() == first || e.peer() == second),
                                std::string("the wrong rank is to blame: ") + e.what());
                         auto rest = comm.shrink();
                         if (comm.rank() == second && ranks > 2) ::raise(SIGKILL);
                         if (rest.size() > ranks - 2 && ranks > 2) {  // the second has survived the first shrink
                           error_of([&] {
                             while (true) barrier(rest);
                           });
                           auto fewer = rest.shrink();
                           rest = std::move(fewer);
                         }
                         expect(rest.size() == (ranks > 2 ? ranks - 2 : 1), "the survivors are others");
                         expect_sum(rest);
                       });
    }
}
