// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that disagree, come late or leave: every rank gets an error that names who and what.
// labels: processes
// timeout: 120
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.hpp"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

// Runs f(comm) on threads; what each rank threw, by rank.
template <class F>
std::vector<error> errors_of(int ranks, F f) {
  std::vector<error> out(static_cast<std::size_t>(ranks), error({.what = "nothing was thrown"}));
  run_threads(ranks, [&](auto& comm) {
    try {
      f(comm);
    } catch (error const& e) {
      out[static_cast<std::size_t>(comm.rank())] = e;
    }
    // Nobody leaves before all have their error, or leaving would be one more fault.
    std::this_thread::sleep_for(50ms);
  });
  return out;
}

bool contains(error const& e, std::string const& text) { return std::string(e.what()).find(text) != std::string::npos; }

// Rank 1 calls something else than the other two.
template <class Theirs, class Odd>
std::vector<error> disagreement(Theirs theirs, Odd odd) {
  return errors_of(3, [&](auto& comm) {
    barrier(comm);
    if (comm.rank() == 1) odd(comm);
    else theirs(comm);
  });
}

}  // namespace

TEST_CASE("a mismatch is an error on all ranks that names both ranks and both calls") {
  auto const sum_of_4 = [](auto& comm) {
    std::vector<float> v(4);
    all_reduce(comm, v);
  };
  auto const check = [&](auto odd, std::string const& theirs, std::string const& mine) {
    for (error const& e : disagreement(sum_of_4, odd)) {
      INFO(std::string(e.what()));
      CHECK(e.code() == error_code::mismatch);
      CHECK(e.peer() >= 0);
      CHECK(e.peer() != e.rank());
      CHECK(contains(e, "call #2"));
      CHECK(contains(e, "rank 1 calls " + mine));
      CHECK(contains(e, theirs));
      CHECK(contains(e, "mismatch.cpp"));
    }
  };
  std::string const usual = "calls all_reduce of 4 float with sum";
  SUBCASE("count") {
    check(
        [](auto& comm) {
          std::vector<float> v(5);
          all_reduce(comm, v);
        },
        usual, "all_reduce of 5 float with sum");
  }
  SUBCASE("a count that takes another path") {
    check(
        [](auto& comm) {
          std::vector<float> v(100'000);
          all_reduce(comm, v);
        },
        usual, "all_reduce of 100000 float with sum");
  }
  SUBCASE("type of the same size") {
    check(
        [](auto& comm) {
          std::vector<int> v(4);
          all_reduce(comm, v);
        },
        usual, "all_reduce of 4 int with sum");
  }
  SUBCASE("operation") {
    check(
        [](auto& comm) {
          std::vector<float> v(4);
          all_reduce(comm, v, tutti::max{});
        },
        usual, "all_reduce of 4 float with max");
  }
  SUBCASE("collective") {
    check(
        [](auto& comm) {
          std::vector<float> v(4);
          broadcast(comm, v, 2);
        },
        usual, "broadcast of 4 float, root 2");
  }
  SUBCASE("collective that waits for nobody") {
    // It finds out in its next call.
    check(
        [](auto& comm) {
          std::vector<float> v(4);
          broadcast(comm, v, 1);
          barrier(comm);
        },
        usual, "broadcast of 4 float, root 1");
  }
  SUBCASE("algorithm") {
    check(
        [](auto& comm) {
          std::vector<float> v(4);
          all_reduce<ring>(comm, v);
        },
        usual, "all_reduce of 4 float with sum (ring");
  }
}

TEST_CASE("roots that differ are a mismatch") {
  auto const errors = errors_of(3, [](auto& comm) {
    std::vector<double> v(1000);
    broadcast(comm, v, comm.rank() == 0 ? 0 : 2);
    barrier(comm);  // a root that had nobody to wait for finds out here
  });
  for (error const& e : errors) {
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::mismatch);
  }
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

TEST_CASE("blocks of a _v form that do not fit are a mismatch") {
  auto const check = [](std::size_t sent, std::size_t expected, std::string const& sentence) {
    auto const errors = errors_of(3, [&](auto& comm) {
      std::vector<char> mine(comm.rank() == 2 ? sent : 5), all(10 + expected);
      std::vector<std::size_t> const counts{5, 5, expected};
      gather_v(comm, mine, all, counts, {}, 0);
      barrier(comm);
    });
    INFO(std::string(errors[0].what()));
    CHECK(errors[0].peer() == 2);
    CHECK(contains(errors[0], sentence));
    for (error const& e : errors) CHECK(e.code() == error_code::mismatch);
  };
  SUBCASE("another number") { check(28, 20, "rank 2 sent 28 bytes where rank 0 expects 20"); }
  SUBCASE("none where some are expected") { check(0, 10, "rank 2 sent 0 bytes where rank 0 expects 10"); }
  SUBCASE("some where none is expected") { check(10, 0, "rank 2 sent 10 bytes where rank 0 expects 0"); }
  SUBCASE("another number of slices") {
    check(20'000, 16'384, "rank 2 sent 16384 bytes and more where rank 0 expects 16384");
  }
}

TEST_CASE("an exception in a call ends it for the others too") {
  // Rank 1 has taken most of its heap, so there is no room for the scratch of this reduction, 4 MiB.
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
  CHECK(said.find("bad_alloc") != std::string::npos);
  CHECK(said.find("rank 1 gave up call #1, reduce of 1048576 float") != std::string::npos);
}

TEST_CASE("a rank that does not come is named at the deadline, with what it called last") {
  auto const errors = errors_of(3, [](auto& comm) {
    std::vector<float> v(10);
    barrier(comm);
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(600ms);
      barrier(comm);
    } else {
      all_reduce(comm, v, sum{}, {.timeout = 300ms});
    }
  });
  INFO(std::string(errors[0].what()));
  CHECK(errors[0].code() == error_code::timeout);
  CHECK(errors[0].peer() == 2);
  CHECK(contains(errors[0], "rank 2 has not arrived: it is after call #1, barrier"));
  CHECK(errors[2].code() == error_code::timeout);  // it is told when it comes
}

TEST_CASE("a rank that leaves is named, at once") {
  auto const begin = std::chrono::steady_clock::now();
  std::vector<error> errors(3, error({.what = "nothing was thrown"}));
  run_threads(3, [&](auto& comm) {
    barrier(comm);
    if (comm.rank() == 1) return;
    std::vector<float> v(100'000);
    try {
      all_reduce(comm, v);
    } catch (error const& e) {
      errors[static_cast<std::size_t>(comm.rank())] = e;
    }
  });
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  for (int const r : {0, 2}) {
    error const& e = errors[static_cast<std::size_t>(r)];
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::rank_left);
    CHECK(contains(e, "rank 1 closed its communicator after call #1"));
  }
}

TEST_CASE("after an error every further call says the same") {
  auto const errors = errors_of(2, [](auto& comm) {
    std::vector<float> v(comm.rank() == 0 ? 4u : 5u);
    CHECK_THROWS_AS(all_reduce(comm, v), error);
    barrier(comm);
  });
  for (error const& e : errors) {
    CHECK(e.code() == error_code::mismatch);
    CHECK(contains(e, "call #1"));
  }
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
