// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The notice board: calls, names, ranks that leave, and faults.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explore/explore.hpp"
#include "explore/ranks.hpp"
#include "explore/weakenings.hpp"

using namespace tutti;
using namespace tutti::testing::explore;

namespace {

detail::call_words call_of(std::uint64_t word) {
  detail::call_words out;
  out.fill(word);
  return out;
}

bool is_whole(std::optional<detail::call_words> const& found, std::uint64_t first, std::uint64_t second) {
  return !found || *found == call_of(first) || *found == call_of(second);
}

}  // namespace

TEST_CASE("the record of a call is overwritten while a peer reads it") {
  ranks group(2, 2);
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      board.begin(1, call_of(1), 1);
      board.begin(1 + detail::records, call_of(2), 2);
    } else {
      expect(is_whole(board.find(0, 1), 1, 1), "the record of a call is torn");
    }
  });
  result const r = holds("board, a call record that is used again, 2 ranks", p);
  finds(p, weakenings_of(r, {"call.word", "call.sequence"}));
  finds(p, {{change::delay, "call.sequence", access::store, "call.word"}});
}

TEST_CASE("a call that has finished has begun, and one that has begun is on record") {
  ranks group(2, 2);
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      board.begin(1, call_of(1), 1);
      board.finish(1);
      board.begin(2, call_of(2), 2);
      return;
    }
    std::uint64_t const finished = board.finished(0), called = board.called(0);
    expect(called >= finished, "a call has finished that has not begun");
    expect(called == 0 || board.find(0, called) == call_of(called), "a call that has begun is not on record");
  });
  result const r = holds("board, two calls, 2 ranks", p);
  char const* const recorded = "`called`, acquired before, releases it";
  finds(p, weakenings_of(r, {"called", "finished"}));
  finds(p, weakenings_of(r, {"call.sequence", "call.word"}),
        {{"call.sequence", access::load, change::relax, recorded},
         {"call.sequence", access::store, change::relax, recorded},
         {"call.word", access::load, change::relax, recorded},
         {"call.word", access::store, change::relax, recorded}});
}

TEST_CASE("an awaited message") {
  ranks group(2, 2);
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      board.set_awaited(call_of(1));
      board.clear_awaited();
      board.set_awaited(call_of(2));
    } else {
      expect(is_whole(board.awaited(0), 1, 2), "an awaited message is torn");
    }
  });
  result const r = holds("board, two awaited messages, 2 ranks", p);
  finds(p, weakenings_of(r));
}

TEST_CASE("names") {
  ranks group(2, 2);
  program const p = group.running([&](int rank) {
    detail::board board = group[rank].notices();
    if (rank == 0) {
      board.introduce(3, "sum");
      board.introduce(4, "max");
    } else {
      std::string const name = board.name(0, 4);
      expect(name == "?" || name == "max", "a name is wrong");
    }
  });
  result const r = holds("board, two names, 2 ranks", p);
  finds(p, weakenings_of(r));
  finds(p, {{change::delay, "name.text", access::plain_store, "name.id"}});
}

TEST_CASE("a rank that has left has finished its calls") {
  ranks group(2, 2);
  program const p = group.running([&](int rank) {
    if (rank == 0) {
      group[0].notices().finish(1);
      group[0].leave();
    } else if (group[1].left(0)) {
      expect(group[1].notices().finished(0) == 1, "a rank has left during its call");
    }
  });
  result const r = holds("board, a rank leaves, 2 ranks", p);
  finds(p, weakenings_of(r),
        {{"finished", access::load, change::relax, "the status has been acquired"},
         {"finished", access::store, change::relax, "the status is released after it"}});
}

TEST_CASE("all ranks see the same fault") {
  for (int const count : {2, 3}) {
    std::array<int, 3> seen{};
    ranks group(count, count);
    program p = group.running([&](int rank) {
      detail::board board = group[rank].notices();
      if (rank < 2) board.raise({static_cast<error_code>(10 + rank), rank, 1 - rank, std::string("fault")});
      std::optional<detail::fault> found;
      wait_for([&] { return board.faulty(); });
      found = board.find_fault();
      expect(found.has_value(), "a fault is not found");
      int const code = static_cast<int>(found->code);
      expect(found->text == "fault" && code == 10 + found->rank, "a fault is torn");
      seen[static_cast<std::size_t>(rank)] = code;
    });
    p.at_end = [&] {
      for (int r = 1; r < count; ++r)
        expect(seen[static_cast<std::size_t>(r)] == seen[0], "ranks see different faults");
    };
    result const r = holds("faults, 2 found, " + std::to_string(count) + " ranks", p);
    if (count == 2) continue;  // each is ordered by its own attempt to publish
    char const* const withdrawal = "the total order is for ranks that read arrays, see below";
    finds(p, weakenings_of(r),
          {{"first_fault", access::load, change::weaken, withdrawal},
           {"first_fault", access::update, change::weaken, withdrawal}});
    finds(p, {{change::delay, "fault.contents", access::plain_store, "first_fault"}});
  }
}

// As faults::poll and faults::withdraw do.
TEST_CASE("no peer reads the arrays of a rank that has given up") {
  std::array<std::uint64_t, 1> array{};
  ranks group(2, 2);
  program const p = group.running(
      [&](int rank) {
        detail::board board = group[rank].notices();
        if (rank == 0) {
          board.raise({error_code::rank_left, 0, -1, std::string("fault")});
          wait_for([&] { return !board.reading(1); });
          array[0] = 1;  // the caller frees it
          return;
        }
        for (int polls = 0; polls < 2; ++polls) {
          board.set_reading(true);
          if (!board.faulty()) expect(array[0] == 0, "an array is read after it was freed");
          board.set_reading(false);
        }
      },
      {}, {std::as_writable_bytes(std::span(array))});
  result const r = holds("faults, a rank gives up while a peer reads, 2 ranks", p);
  finds(p, weakenings_of(r));
}
