// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that disagree, are late or leave, over one transport: all get the same error, which names the ranks and their
// calls. Each function is executed by each of three or more ranks.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// The error of run(group) on a new communicator that has made one call. No rank begins run() while others are still in that
// call, where they would get the error instead, and none continues before all have their error.
// The errors of the ranks for which `counts` holds are the same, peer() too, except for the call site and the advice.
template <class Comm, class F>
error shared_error(Comm& comm, F&& run, bool counts = true) {
  std::optional<Comm> group(*comm.split(0));
  error const out = error_of([&] {
    barrier(*group);
    barrier(comm);
    run(group);
  });
  std::string const all = std::to_string(out.peer()) + " is to blame: " + out.what();
  std::array<char, 1500> mine{};
  if (counts) all.copy(mine.data(), std::min(mine.size(), all.find(" [rank")));
  std::vector<char> everyone(mine.size() * static_cast<std::size_t>(comm.size()));
  all_gather(comm, mine, everyone);
  std::string_view common;
  for (std::size_t r = 0; r < everyone.size(); r += mine.size()) {
    std::string_view const theirs(everyone.data() + r);
    if (theirs.empty()) continue;
    if (common.empty()) common = theirs;
    expect(theirs == common, "ranks have different errors: " + std::string(common) + "; " + std::string(theirs));
  }
  return out;
}

// Rank 1 makes other calls than the others.
template <class Comm, class Theirs, class Odd>
void expect_mismatch(Comm& comm, Theirs&& theirs, Odd&& odd, std::string const& usual, std::string const& other) {
  error const e = shared_error(comm, [&](auto& group) {
    if (comm.rank() == 1) odd(*group);
    else theirs(*group);
  });
  expect_error(e, error_code::mismatch, "call #2");
  expect_error(e, error_code::mismatch, "rank 1 calls " + other);
  expect_error(e, error_code::mismatch, "calls " + usual);
  expect_error(e, error_code::mismatch, "mismatches.hpp");
  expect(e.peer() >= 0, std::string("an error that names no rank: ") + e.what());
}

template <class Comm>
void check_mismatches(Comm& comm) {
  std::vector<float> four(4), five(5), many(100'000), all(4 * static_cast<std::size_t>(comm.size()));
  std::vector<int> ints(4);
  auto const check = [&](auto&& odd, std::string const& other) {
    expect_mismatch(comm, [&](auto& c) { all_reduce(c, four); }, odd, "all_reduce of 4 float with sum", other);
  };
  check([&](auto& c) { all_reduce(c, five); }, "all_reduce of 5 float with sum");
  check([&](auto& c) { all_reduce(c, many); }, "all_reduce of 100000 float with sum");  // takes another path
  check([&](auto& c) { all_reduce(c, ints); }, "all_reduce of 4 int with sum");         // of the same size
  check([&](auto& c) { all_reduce(c, four, max{}); }, "all_reduce of 4 float with max");
  check([&](auto& c) { broadcast(c, four, 2); }, "broadcast of 4 float, root 2");
  check(
      [&](auto& c) {  // waits for nobody, and finds out in its next call
        broadcast(c, four, 1);
        barrier(c);
      },
      "broadcast of 4 float, root 1");
  check([&](auto& c) { all_reduce<ring>(c, four); }, "all_reduce of 4 float with sum (ring");
  check([&](auto& c) { barrier(c); }, "barrier");
  check([&](auto& c) { all_reduce(async(c), five).wait(); }, "all_reduce of 5 float with sum");
}

// Arrays that share a call have as many elements on all ranks, but not the same sizes.
template <class Comm>
void check_sizes_of_lists(Comm& comm) {
  auto const sum_of = [](std::vector<std::size_t> const& sizes, auto&& add) {
    return [=](auto& c) {
      std::vector<std::vector<float>> list(sizes.begin(), sizes.end());
      add(c, list);
    };
  };
  std::string const several = "all_reduce of 8 float, in parts (hash of their sizes: ";
  auto const check = [&](auto&& add) {
    expect_mismatch(comm, sum_of({5, 3}, add), sum_of({3, 5}, add), several, several);
    expect_mismatch(comm, sum_of({4, 4}, add), sum_of({8}, add), several, "all_reduce of 8 float with sum");
  };
  check([](auto& c, auto& list) { all_reduce(c, list); });
  check([](auto& c, auto& list) { all_reduce(async(c), list).wait(); });
  check([](auto& c, auto& list) {
    batch all(c);
    for (auto& array : list) all_reduce(all, array);
    all.run();
  });
}

// The same calls, in another order at rank 1; and a call that it leaves out.
template <class Comm>
void check_order_of_calls(Comm& comm) {
  std::vector<float> one(4), all(4 * static_cast<std::size_t>(comm.size()));
  std::vector<int> ints(4);
  std::string const sum_of_4 = "all_reduce of 4 float with sum", gather_of_4 = "all_gather of 4 float";
  auto const sum_all = [&](auto&& c) { return all_reduce(c, one); };
  auto const gather_all = [&](auto&& c) { return all_gather(c, one, all); };
  expect_mismatch(
      comm, [&](auto& c) { sum_all(c), gather_all(c); }, [&](auto& c) { gather_all(c), sum_all(c); }, sum_of_4,
      gather_of_4);
  expect_mismatch(
      comm,
      [&](auto& c) {
        work first = sum_all(async(c)), second = gather_all(async(c));
        second.wait();
      },
      [&](auto& c) {
        work first = gather_all(async(c)), second = sum_all(async(c));
        second.wait();
      },
      sum_of_4, gather_of_4);
  expect_mismatch(
      comm, [&](auto& c) { all_reduce(c, one), all_reduce(c, ints); },
      [&](auto& c) { all_reduce(c, ints), all_reduce(c, one); }, sum_of_4, "all_reduce of 4 int with sum");
  expect_mismatch(
      comm, [&](auto& c) { sum_all(c), gather_all(c); }, [&](auto& c) { gather_all(c); }, sum_of_4, gather_of_4);
}

template <class Comm>
void check_roots_and_blocks(Comm& comm) {
  std::vector<double> data(1000);
  error const e = shared_error(comm, [&](auto& group) {
    broadcast(*group, data, comm.rank() == 0 ? 0 : 2);
    barrier(*group);  // a root that had nobody to wait for finds out here
  });
  expect_error(e, error_code::mismatch, "broadcast of 1000 double, root 0");
  expect_error(e, error_code::mismatch, "broadcast of 1000 double, root 2");

  auto const check = [&](std::size_t sent, std::size_t expected, std::string const& sentence) {
    error const found = shared_error(comm, [&](auto& group) {
      std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()), 5);
      counts[2] = expected;
      std::vector<char> mine(comm.rank() == 2 ? sent : 5), gathered(5 * (counts.size() - 1) + expected);
      gather_v(*group, mine, gathered, counts, {}, 0);
      barrier(*group);
    });
    expect_error(found, error_code::mismatch, sentence);
    expect_error(found, error_code::mismatch, "must pass the same count for it");
    expect(found.peer() == 2, "the wrong rank is to blame");
  };
  check(28, 20, "rank 2 sent 28 bytes where rank 0 expects 20");
  check(0, 10, "rank 2 sent 0 bytes where rank 0 expects 10");
  check(10, 0, "rank 2 sent 10 bytes where rank 0 expects 0");
}

// Rank 2 does not arrive until the others have given up.
template <class Comm>
void check_absence(Comm& comm) {
  std::vector<float> data(10);
  error const e = shared_error(comm, [&](auto& group) {
    bool const late = comm.rank() == 2;
    error const found =
        late ? error({}) : error_of([&] { all_reduce(*group, data, sum{}, {.timeout = std::chrono::seconds(2)}); });
    barrier(comm);
    if (late) barrier(*group);  // it gets the error when it arrives
    throw found;
  });
  expect_error(e, error_code::timeout, "call #2, all_reduce of 10 float with sum");
  expect_error(e, error_code::timeout, " did not complete within 2 s; ");
  expect_error(e, error_code::timeout, "rank 2 has not arrived: it is ");
  // In a barrier over MPI, not every rank hears from every other, and the first that gives up reports for all.
  constexpr bool may_be_unheard = detail::queries_peers<std::remove_cvref_t<decltype(comm.engine().transport())>>;
  if (!may_be_unheard || std::string(e.what()).find("it is not heard from") == std::string::npos)
    expect_error(e, error_code::timeout, "after call #1, barrier");
  expect(e.peer() == 2, "the wrong rank is to blame");
}

// Rank 1 makes its calls on another communicator.
template <class Comm>
void check_absence_elsewhere(Comm& comm) {
  if (comm.rank() > 1) return;
  auto pair = comm.subgroup({0, 1}), other = comm.subgroup({0, 1});
  barrier(other);
  if (comm.rank() == 1) return static_cast<void>(recv<int>(comm, 0));
  error const e = error_of([&] { barrier(pair, {.timeout = std::chrono::milliseconds(300)}); });
  send(comm, 1, 1);
  expect_error(e, error_code::timeout, "rank 1 has not arrived: it is ");
  expect_error(e, error_code::timeout, " on this communicator [rank 0]");
}

// Rank 1 has come as far as the call before, in which rank 2 has not arrived.
template <class Comm>
void check_absence_of_two(Comm& comm) {
  if (comm.size() < 4) return;
  std::vector<float> data(10);
  bool const first = comm.rank() == 1, second = comm.rank() == 2;
  error const e = shared_error(comm, [&](auto& group) {
    if (!second) broadcast(*group, data, 0, {.algorithm = algorithm_id::one_shot});
    options const brief{.algorithm = algorithm_id::one_shot, .timeout = std::chrono::seconds(2)};
    error const found = first || second ? error({}) : error_of([&] { all_reduce(*group, data, sum{}, brief); });
    barrier(comm);
    if (first || second) barrier(*group);
    throw found;
  });
  expect_error(e, error_code::timeout, "call #3, all_reduce of 10 float with sum");
  expect_error(e, error_code::timeout, "rank 1 has not arrived: it is ");
  expect_error(e, error_code::timeout, "rank 2 has not arrived: it is ");
  // Over MPI a rank may not have heard of either.
  constexpr bool may_be_unheard = detail::queries_peers<std::remove_cvref_t<decltype(comm.engine().transport())>>;
  expect(e.peer() == 2 || (may_be_unheard && e.peer() == 1), "not the rank that is the furthest behind is to blame");
}

// Rank 1 closes its communicator.
template <class Comm>
void check_leaving(Comm& comm) {
  std::vector<float> data(100'000);
  bool const leaves = comm.rank() == 1;
  error const e = shared_error(
      comm,
      [&](auto& group) {
        error const found = leaves ? error({}) : error_of([&] { all_reduce(*group, data); });
        group.reset();  // over MPI communicators close together
        if (!leaves) throw found;
      },
      !leaves);
  if (!leaves) expect_error(e, error_code::rank_left, "rank 1 closed its communicator after call #1");
}

// Rank 1 closes its communicator because one of its calls was refused, or because of another exception.
template <class Comm>
void check_leaving_with_a_reason(Comm& comm) {
  bool const leaves = comm.rank() == 1;
  std::vector<float> four(4), five(5);
  auto const check = [&](auto&& call, error_code own, error_code others, std::string const& reason) {
    error const e = shared_error(
        comm,
        [&](auto& group) {
          Comm closes_here(std::move(*group));
          call(closes_here);
        },
        !leaves);
    expect_error(e, leaves ? own : others, reason);
    if (!leaves) expect(!e.way_out().empty() && e.way_out().find("all ranks") == std::string::npos, e.way_out());
  };
  check([&](auto& c) { all_reduce(c, four, leaves ? five : four); }, error_code::bad_argument, error_code::rank_left,
        "the output of all_reduce has 5 elements, but the input has 4");
  check([&](auto& c) { all_reduce(c, four, sum{}, {.timeout = std::chrono::seconds(leaves ? -1 : 100)}); },
        error_code::bad_argument, error_code::rank_left, "options::timeout is negative");
  check(
      [&](auto& c) {
        if (leaves) send(c, four, comm.size());
        recv(c, four, 1);
      },
      error_code::bad_argument, error_code::rank_left, "send names rank " + std::to_string(comm.size()));
  check(
      [&](auto& c) {
        if (leaves) send_recv(c, four, 0, four, 0);
        recv(c, four, 1);
      },
      error_code::bad_argument, error_code::rank_left, "input and output of send_recv overlap");
  check(
      [&](auto& c) {
        if (leaves) static_cast<void>(probe(c, comm.size()));
        recv(c, four, 1);
      },
      error_code::bad_argument, error_code::rank_left, "probe names rank " + std::to_string(comm.size()));
  check(
      [&](auto& c) {
        if (leaves) static_cast<void>(iprobe(c, 0, -7));
        barrier(c);
      },
      error_code::bad_argument, error_code::rank_left, "iprobe has tag -7");
  check([&](auto& c) { barrier(c, {.timeout = std::chrono::seconds(leaves ? -1 : 100)}); }, error_code::bad_argument,
        error_code::rank_left, "options::timeout is negative");
  check(
      [&](auto& c) {
        if (leaves) static_cast<void>(c.subgroup({1, 1}));
        barrier(c);
      },
      error_code::bad_argument, error_code::rank_left, "the list of a group contains rank 1 twice");
  check(
      [&](auto& c) {
        if (leaves)
          throw error({.code = error_code::system, .what = "an exception made rank 1 close its communicator"});
        all_reduce(c, four);
      },
      error_code::system, error_code::rank_left, "an exception made rank 1 close its communicator");
}

// Rank 1 makes no collective call before it closes its communicator, but sends a message the second time.
template <class Comm>
void check_leaving_before_a_call(Comm& comm) {
  std::vector<float> four(4);
  bool const leaves = comm.rank() == 1;
  for (bool const sends : {false, true}) {
    std::optional<Comm> group(*comm.split(0));
    if (sends && leaves) send(*group, four, 0);
    if (sends && comm.rank() == 0) recv(*group, four, 1);
    barrier(comm);  // the message has been received when the others find out that rank 1 has left
    error const e = leaves ? error({}) : error_of([&] { all_reduce(*group, four); });
    group.reset();  // over MPI communicators close together
    if (!leaves)
      expect_error(e, error_code::rank_left, "rank 1 closed its communicator before its first collective call");
    barrier(comm);
  }
}

// A refused call is forgotten once the rank has made another.
template <class Comm>
void check_going_on_after_a_refusal(Comm& comm) {
  bool const leaves = comm.rank() == 1;
  std::vector<float> four(4), five(5);
  error const e = shared_error(
      comm,
      [&](auto& group) {
        if (leaves) expect_error(error_of([&] { all_reduce(*group, four, five); }), error_code::bad_argument, "");
        all_reduce(*group, four);
        barrier(comm);
        error const found = leaves ? error({}) : error_of([&] { all_reduce(*group, four); });
        group.reset();
        throw found;
      },
      !leaves);
  error const after_message = shared_error(
      comm,
      [&](auto& group) {
        if (leaves) {
          expect_error(error_of([&] { send(*group, four, comm.size()); }), error_code::bad_argument, "names rank");
          for (int to = 0; to < comm.size(); ++to)
            if (to != comm.rank()) send(*group, four, to);
        } else {
          recv(*group, four, 1);
        }
        barrier(comm);
        error const found = leaves ? error({}) : error_of([&] { recv(*group, four, 1); });
        group.reset();
        throw found;
      },
      !leaves);
  if (leaves) return;
  expect_error(e, error_code::rank_left, "rank 1 closed its communicator after call #2");
  expect(e.happened().find("refused") == std::string::npos, e.what());
  expect_error(after_message, error_code::rank_left, "rank 1 closed its communicator");
  expect(after_message.happened().find("refused") == std::string::npos, after_message.what());
}

template <class Comm>
void check_calls_after_an_error(Comm& comm) {
  error const e = shared_error(comm, [&](auto& group) {
    std::vector<float> data(comm.rank() == 0 ? 4u : 5u);
    error const first = error_of([&] { all_reduce(*group, data); });
    error const again = error_of([&] { barrier(*group); });
    expect(first.happened() == again.happened(), "another error than before: " + again.happened());
    throw again;
  });
  expect_error(e, error_code::mismatch, "call #2");
}

// Over MPI all ranks close together, but after an error none waits for one that keeps its communicator.
template <class Comm>
void check_closing_after_an_error(Comm& comm) {
  std::optional<Comm> group(*comm.split(0));
  std::vector<float> data(comm.rank() == 0 ? 4 : 5);
  expect_error(error_of([&] { all_reduce(*group, data); }), error_code::mismatch, "call #1");
  if (comm.rank() != 1) group.reset();
  barrier(comm);
}

template <class Comm>
void check_disagreements(Comm& comm) {
  check_mismatches(comm);
  check_sizes_of_lists(comm);
  check_order_of_calls(comm);
  check_roots_and_blocks(comm);
  check_absence(comm);
  check_absence_elsewhere(comm);
  check_absence_of_two(comm);
  check_leaving(comm);
  check_leaving_before_a_call(comm);
  check_leaving_with_a_reason(comm);
  check_going_on_after_a_refusal(comm);
  check_calls_after_an_error(comm);
  check_closing_after_an_error(comm);
}

}  // namespace tutti::testing
