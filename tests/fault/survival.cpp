// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words to the launcher wait until it reads them, and none is lost.
// labels: processes
#include "tutti/fault/survival.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

using namespace tutti;

TEST_CASE("a launcher that is busy loses no word") {
  detail::survival_line const line;
  line.pass_on();
  detail::report_survival();
  for (int number = 0; number < 3000; ++number) detail::report_join(number);
  auto const words = line.take();
  CHECK(words.survival);
  std::vector<int> all(3000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(words.joined == all);
  CHECK_FALSE(words.late_mismatch);
  detail::report_exclusion(4711);
  detail::report_late_mismatch();
  auto const later = line.take();
  CHECK(later.late_mismatch);
  CHECK_FALSE(later.survival);
  CHECK(later.joined.empty());
  CHECK(later.excluded == std::vector{4711});
  ::unsetenv("TUTTI_SURVIVAL");
}

TEST_CASE("a program that says something to a launcher that is gone is not ended by SIGPIPE") {
  int gone[2];
  REQUIRE(::pipe(gone) == 0);
  std::optional<detail::survival_line> line(std::in_place);
  pid_t const child = ::fork();
  if (child == 0) {
    line->pass_on();
    ::close(gone[1]);
    char byte = 0;
    [[maybe_unused]] auto const end = ::read(gone[0], &byte, 1);
    ::execl("/bin/sh", "sh", "-c", "printf word >&${TUTTI_SURVIVAL%%:*}", nullptr);
    ::_exit(127);
  }
  line.reset();
  ::close(gone[0]);
  ::close(gone[1]);
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
