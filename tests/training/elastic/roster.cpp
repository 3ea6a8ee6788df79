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

TEST_CASE("a roster knows which members are ranks, while these change") {
  using training::member, training::member_state;
  std::vector<std::string> told;
  detail::roster some([&](training::transition const& t) { told.push_back(t.text()); });
  some.begin(3);
  CHECK(some.numbers() == std::vector{0, 1, 2});
  some.welcome({0, 1, 2});
  some.suspect(2, true);
  some.lose_all_but({0, 2}, {});
  some.suspect(1, false);  // member 2 now
  some.append({1});
  CHECK(some.numbers() == std::vector{0, 2, 1});
  some.welcome({0, 2, 1});
  CHECK(told ==
        std::vector<std::string>{"member 2 (rank 2), healthy -> suspected, after step 0: other ranks wait for it",
                                 "member 1 (rank 1), healthy -> failed, after step 0: its end was noticed by "
                                 "another rank",
                                 "member 2 (rank 1), suspected -> healthy, after step 0",
                                 "member 1 (rank 2), failed -> healthy, after step 0"});
  CHECK(some.members() == std::vector{member{0, 0, member_state::healthy}, member{1, 2, member_state::healthy},
                                      member{2, 1, member_state::healthy}});
}
