// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which fault ranks report when several find one, and when one of them dies while it writes. Why a rank leaves.
// labels: threads
#include "tutti/transport/board.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitized.hpp"
#include "tutti/core/wait.hpp"

using namespace tutti;
using namespace tutti::detail;
using tutti::testing::sanitized;

namespace {

// The segment of two ranks.
class two_pages {
 public:
  segment view() { return {reinterpret_cast<std::byte*>(pages_.data()), 2, 0, 0}; }

 private:
  struct alignas(page) one {
    std::byte data[page];
  };
  std::vector<one> pages_{segment(nullptr, 2, 0, 0).bytes() / page};
};

}  // namespace

TEST_CASE("the first fault counts, at every rank") {
  two_pages memory;
  segment const view = memory.view();
  board first(view, 0), second(view, 1);
  CHECK(!first.faulty());
  CHECK(!first.find_fault());
  second.raise({error_code::rank_lost, 1, 0, "found by rank 1"});
  first.raise({error_code::rank_left, 0, 1, "found later"});
  for (board const* b : {&first, &second}) {
    REQUIRE(b->faulty());
    CHECK(b->find_fault()->text == "found by rank 1");
    CHECK(b->find_fault()->code == error_code::rank_lost);
    CHECK(b->find_fault()->rank == 1);
    CHECK(b->find_fault()->peer == 0);
  }
}

TEST_CASE("faults and names that are too long are cut between characters") {
  two_pages memory;
  segment const view = memory.view();
  board self(view, 0);
  std::string text;
  for (int i = 0; i < 600; ++i) text += "€";  // 3 bytes
  self.introduce(1, text);
  CHECK(self.name(0, 1) == text.substr(0, 57));
  self.raise({error_code::rank_lost, 0, 1, text});
  CHECK(self.find_fault()->text == text.substr(0, 1002));
}

TEST_CASE("a reason to leave is never a mixture of two") {
  two_pages memory;
  segment const view = memory.view();
  board self(view, 0), peer(view, 1);
  std::string const refusal(300, 'r'), other(200, 'x');
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    for (bool first = true; !over; first = !first) {
      self.explain_leaving(first ? circumstance::refused : circumstance::exception, first ? refusal : other);
      for (int k = 0; k < (sanitized ? 20000 : 300); ++k) pause_briefly();  // about as long as a read takes
    }
    self.explain_leaving(circumstance::exception, other);
  });
  int mixed = 0, refusals = 0, others = 0;
  for (auto const until = deadline::after(std::chrono::seconds(60));
       (refusals < 20000 || others < 20000) && !until.passed();) {
    leaving_reason const said = peer.reason_to_leave(0);
    refusals += said.when == circumstance::refused;
    others += said.when == circumstance::exception;
    mixed += said.when == circumstance::refused     ? said.text != refusal
             : said.when == circumstance::exception ? said.text != other
                                                    : !said.text.empty();
  }
  over = true;
  writer.join();
  CHECK(mixed == 0);
  CHECK(refusals > 0);
  CHECK(others > 0);
  CHECK(peer.reason_to_leave(0).text == other);
}

TEST_CASE("a rank that dies while it writes a fault has raised none") {
  two_pages memory;
  segment const view = memory.view();
  view.rank(1).found.taken = true;
  view.rank(1).found.code = error_code::rank_lost;
  board survivor(view, 0);
  CHECK(!survivor.faulty());
  survivor.raise({error_code::rank_lost, 0, 1, "rank 1 ended"});
  REQUIRE(survivor.faulty());
  CHECK(survivor.find_fault()->text == "rank 1 ended");
}
