// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The output of TUTTI_LOG and TUTTI_STATISTICS.
// labels: processes
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <unistd.h>
#include <vector>

#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// The standard error output of three ranks that make some calls, the last of which fails.
std::string printed() {
  temporary_folder const at;
  std::string const path = at.path() / "printed";
  std::fflush(stderr);
  int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), before = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::string failed = "nothing";
  try {
    run_local(3, [](auto& comm) {
      std::vector<float> data(10);
      for (int i = 0; i < 4; ++i) all_reduce(comm, data);
      broadcast(comm, data);
      {
        auto group = comm.subgroup({0, 1, 2}), unused = comm.subgroup({0, 1, 2});
        all_reduce(async(group), data).wait();
        barrier(comm);
      }
      comm.agree();  // no rank is still in the barrier, which the error would end
      std::vector<double> wrong(comm.rank() == 1 ? 5 : 6);
      expect_error(error_of([&] { all_reduce(comm, wrong); }), error_code::mismatch, "call #7");
      expect_error(error_of([&] { all_reduce(comm, wrong); }), error_code::mismatch, "call #7");
    });
  } catch (error const& e) {
    failed = e.what();
  }
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  CHECK(failed == "nothing");
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::ptrdiff_t lines_with(std::string const& text, std::string const& pattern) {
  std::regex const wanted("(^|\\n)" + pattern + "(?=\\n)");
  return std::distance(std::sregex_iterator(text.begin(), text.end(), wanted), std::sregex_iterator());
}

constexpr char const* error_lines = R"(tutti\[[012]\] tutti: ranks disagree in call #7: .* \[rank [012]\] .*)";
constexpr char const* rank_lines = R"(tutti\[([012])\] is rank [012] of 3 over shm)";
constexpr char const* group_lines = R"(tutti\[([012]), group [12]\] is rank [012] of 3 over shm)";
constexpr char const* sum_lines =
    R"(tutti\[[012]\] call #[1234], all_reduce of 10 float with sum \(.*\), took [0-9.]+ us)";
constexpr char const* call_lines = R"(tutti\[[012]\] call #[0-9]+, .*)";
constexpr char const* lines_of_groups = R"(tutti\[[012], group 1\] call #1, all_reduce of 10 float .*, took .* us)";

}  // namespace

TEST_CASE("each level of the log has those before it, and nothing else is printed") {
  struct {
    char const* level;
    int errors, ranks, calls;  // of each rank
  } const levels[] = {{"none", 0, 0, 0}, {"error", 1, 0, 0}, {"info", 1, 1, 0}, {"debug", 1, 1, 6}};
  for (auto const& [level, its_errors, its_ranks, its_calls] : levels) {
    environment const here{{"TUTTI_LOG", level}};
    std::string const text = printed();
    CAPTURE(text);
    CHECK(lines_with(text, error_lines) == 3 * its_errors);
    CHECK(lines_with(text, rank_lines) == 3 * its_ranks);
    CHECK(lines_with(text, group_lines) == 6 * its_ranks);
    CHECK(lines_with(text, call_lines) == 3 * its_calls);
    CHECK(lines_with(text, sum_lines) == (its_calls > 0 ? 12 : 0));
    CHECK(lines_with(text, lines_of_groups) == (its_calls > 0 ? 3 : 0));
    CHECK(lines_with(text, ".+") == 3 * (its_errors + 3 * its_ranks + its_calls + (its_calls > 0 ? 1 : 0)));
  }
}

TEST_CASE("statistics are a table of each communicator that has made calls, by rank 0 alone") {
  CHECK(printed() == "");
  environment const here{{"TUTTI_STATISTICS", "1"}};
  std::string const text = printed();
  CAPTURE(text);
  std::string const head = "collective +calls +bytes +total ms +mean us +longest us",
                    times = "( +[0-9]+\\.[0-9]{3}){3}";
  CHECK(lines_with(text, "tutti: calls of rank 0 of 3 over shm") == 1);
  CHECK(lines_with(text, "tutti: calls of rank 0 of 3 over shm, group 1") == 1);
  CHECK(lines_with(text, head) == 2);
  CHECK(lines_with(text, "all_reduce +4 +160" + times) == 1);
  CHECK(lines_with(text, "all_reduce +1 +40" + times) == 1);
  CHECK(lines_with(text, "broadcast +1 +40" + times) == 1);
  CHECK(lines_with(text, "barrier +1 +0" + times) == 1);
  CHECK(lines_with(text, ".+") == 8);
}
