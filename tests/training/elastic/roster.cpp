// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes of members are reported once each, and the function that is told may ask for all members.
#include "tutti/training/elastic/roster.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tutti;

TEST_CASE("a roster reports what changes, and nothing else") {
  using training::member, training::member_state;
  std::vector<std::string> reports;
  std::vector<member> then;
  detail::roster* asked = nullptr;
  detail::roster roster([&](training::transition const& t) {
    reports.push_back(t.text());
    then = asked->members();
  });
  asked = &roster;
  for (int const number : {1, 0, 1}) roster.note(number, number, member_state::healthy, "");
  CHECK(reports.empty());
  roster.completed = 7;
  roster.note(1, 1, member_state::failed, "it ended");
  CHECK(reports == std::vector<std::string>{"member 1 (rank 1), healthy -> failed, after step 7: it ended"});
  CHECK(then == std::vector{member{0, 0, member_state::healthy}, member{1, 1, member_state::failed}});
  CHECK(roster.failed() == std::vector{1});
  roster.note(2, 1, member_state::recovering, "");
  CHECK(reports.back() == "member 2 (rank 1), failed -> recovering, after step 7");
}
