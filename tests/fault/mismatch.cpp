// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks whose messages of different calls pass each other, or that give up in a call: every rank gets an error that
// names the ranks and calls. mismatches.hpp has disagreements over every transport.
// labels: processes
// timeout: 120
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/analyze/verify.hpp"
#include "tutti/core/file.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

// Right for two ranks. Of three, rank 2 waits for a result that rank 0 does not send.
struct half_told {
  static constexpr std::string_view name = "half_told";
};
template <>
struct tutti::schedule<half_told, collective::all_reduce> : schedule_defaults {
  constexpr int steps(shape s, position) const { return s.ranks > 1 ? 2 : 0; }
  constexpr step at(shape s, position me, int i) const {
    if (me.rank == 0 && i == 0)
      return {.from = everyone(s), .own = {space::input}, .keep = {space::output}, .complete = true};
    if (me.rank == 0) return {.to = one(1), .give = {space::output}};
    if (i == 0) return {.to = one(0), .give = {space::input}};
    return {.from = one(0), .keep = {space::output}};
  }
};

TEST_CASE("an error in a call by an algorithm of the program's says what is wrong with its schedule") {
  auto const sum_of_all = [](auto& comm) {
    std::vector<float> v(1000, 1);
    all_reduce<half_told>(comm, v, sum{}, {.protocol = protocol::staged, .timeout = 500ms});
    expect(v[0] == static_cast<float>(comm.size()), "another sum");
  };
  CHECK_NOTHROW(run_local(2, sum_of_all));
  CHECK_THROWS_WITH_AS(run_local(3, sum_of_all),
                       doctest::Contains("call #1 is by half_told, the program's own algorithm, which is wrong for 3 "
                                         "ranks: deadlock: rank 2"),
                       error);
}

TEST_CASE("ranks that write past each other learn of it by the next message that is read") {
  auto const check = [](int ranks, auto wrong) {
    CAPTURE(ranks);
    for (error const& e : errors_of(ranks, [&](auto& comm) {
           barrier(comm);
           wrong(comm);
           barrier(comm);
         })) {
      INFO(std::string(e.what()));
      CHECK(e.code() == error_code::mismatch);
      CHECK(contains(e, "call #2"));
    }
  };
  for (protocol const how : {protocol::packet, protocol::staged}) {
    CAPTURE(name(how));
    options const one{.algorithm = algorithm_id::one_shot, .protocol = how};
    check(2, [&](auto& comm) {
      std::vector<float> v(4), sum_of_all(4);
      reduce(comm, v, sum_of_all, sum{}, 1 - comm.rank(), one);
    });
    check(3, [&](auto& comm) {
      std::vector<float> v(4);
      broadcast(comm, v, comm.rank() == 1 ? 1 : 0, one);
    });
  }
}

TEST_CASE("ranks that name different algorithms are told to name the same") {
  for (error const& e : errors_of(2, [](auto& comm) {
         std::vector<float> v(4);
         all_reduce(comm, v, sum{}, {.algorithm = comm.rank() == 0 ? algorithm_id::ring : algorithm_id::one_shot});
       })) {
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "operations, algorithms and protocols (TUTTI_ALGORITHM too)"));
  }
}

TEST_CASE("ranks that make another collective, of another number of elements, are told both") {
  options const one{.algorithm = algorithm_id::one_shot};
  for (error const& e : errors_of(2, [&](auto& comm) {
         std::vector<float> four(4), five(5);
         if (comm.rank() == 0) all_reduce(comm, four, sum{}, one);
         else reduce(comm, five, sum{}, 0, one);
         barrier(comm);
       })) {
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "all_reduce of 4 float"));
    CHECK(contains(e, "reduce of 5 float"));
  }
}

TEST_CASE("a rank that is ahead by as many calls as packets allow is still told") {
  for (error const& e : errors_of(2, [](auto& comm) {
         std::vector<float> v(4);
         if (comm.rank() == 1) barrier(comm);
         for (int i = 0; i < 10; ++i) broadcast(comm, v, 0);
       })) {
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "call #1"));
  }
}

TEST_CASE("another number of slices in a block of a _v form is a mismatch") {
  struct lengths {
    std::size_t sent, expected;
    char const* text;
  };
  for (auto const& [sent, expected, text] :
       {lengths{20'000, 16'384, "rank 2 sent 20000 bytes where rank 0 expects 16384"},
        {40'000, 20'000, "rank 2 sent 40000 bytes where rank 0 expects 20000"},
        {16'384, 20'000, "rank 2 sent 16384 bytes where rank 0 expects 16384 or more"},
        {300'000, 20'000, "rank 2 sent 262144 or more bytes where rank 0 expects 20000"}}) {
    CAPTURE(text);
    auto const errors = errors_of(3, [&](auto& comm) {
      std::vector<char> mine(comm.rank() == 2 ? sent : 5), all(10 + expected);
      std::vector<std::size_t> const counts{5, 5, expected};
      gather_v(comm, mine, all, counts, {}, 0);
      barrier(comm);
    });
    CHECK(errors[0].peer() == 2);
    INFO(std::string(errors[0].what()));
    CHECK(contains(errors[0], text));
    for (error const& e : errors) CHECK(e.code() == error_code::mismatch);
  }
}

TEST_CASE("an exception in a call ends it for the others too") {
  // Rank 1 has allocated most of its heap, so there is no room for the scratch of this reduction, 4 MiB.
  ::setenv("TUTTI_HEAP", "8388608", 1);
  std::string said;
  try {
    run_local(2, [](auto& comm) {
      std::vector<float> v(1 << 20);
      auto const taken = comm.template allocate<char>(comm.rank() == 1 ? 6 << 20 : 0);
      reduce<two_shot>(comm, v, sum{}, 0, {.timeout = 20s});
    });
  } catch (error const& e) {
    said = e.what();
  }
  ::unsetenv("TUTTI_HEAP");
  INFO(said);
  CHECK(contains(said, "bad_alloc"));
  CHECK(contains(said, "set TUTTI_HEAP to more bytes"));
  CHECK(said.find("rank 1 gave up call #1, reduce of 1048576 float") != std::string::npos);
}

TEST_CASE("different roots in the last call are reported when the communicator is closed") {
  temporary_folder const folder;
  std::string const file = folder.path() / "said";
  CHECK_NOTHROW(run_local(3, [&](auto& comm) {
    ::dup2(::open(file.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600), STDERR_FILENO);
    std::vector<float> v(4);
    auto group = comm.split(0);
    try {
      broadcast(*group, v, comm.rank() == 2 ? 2 : 0);
    } catch (error const& e) {  // a rank that had closed its communicator found out
      std::fprintf(stderr, "%s\n", e.what());
    }
    group.reset();
    barrier(comm);
  }));
  std::string const said = read_file(file).value_or("");
  INFO(said);
  CHECK(said.find("ranks disagree in call #1: rank ") != said.npos);
  for (char const* const rank : {"rank 2 calls broadcast of 4 float, root 2", " calls broadcast of 4 float, root 0"})
    CHECK(said.find(rank) != said.npos);
}

TEST_CASE("an exception of an operation leaves the call of its rank, and ends it for the others") {
  auto const check = [](auto& comm) {
    for (std::size_t const count : {4u, 5000u})
      for (bool const starts : {false, true}) {
        auto group = comm.split(0).value();
        std::vector<float> v(count, 1);
        auto const add = [throws = comm.rank() == 1](float a, float b) {
          if (throws) throw std::range_error("an overflow");
          return a + b;
        };
        std::string thrown;
        try {
          if (starts) all_reduce(async(group), v, add).wait();
          else all_reduce(group, v, add);
        } catch (std::range_error const& e) {
          thrown = e.what();
        } catch (error const&) {  // rank 1 was faster
        }
        expect(thrown == (comm.rank() == 1 ? "an overflow" : ""), "another exception: " + thrown);
        error const later = error_of([&] { barrier(group); });
        expect_error(later, error_code::rank_left, "rank 1 gave up call #1, all_reduce of " + std::to_string(count));
        expect_error(later, error_code::rank_left, "find out what that rank threw");
        barrier(comm);
      }
  };
  CHECK_NOTHROW(run_threads(3, check));
  CHECK_NOTHROW(run_local(3, check));
}

TEST_CASE("processes are told as threads are") {
  try {
    run_local(3, [](auto& comm) {
      std::vector<int> v(comm.rank() == 1 ? 3u : 4u);
      all_reduce(comm, v);
    });
    FAIL("nothing was thrown");
  } catch (error const& e) {
    INFO(std::string(e.what()));
    CHECK(contains(e, "rank 1 calls all_reduce of 3 int with sum"));
    CHECK(contains(e, "calls all_reduce of 4 int with sum"));
    for (char const* const rank : {"rank 0 ended", "rank 1 ended", "rank 2 ended"}) CHECK(contains(e, rank));
  }
}
