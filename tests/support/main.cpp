// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The main function of every test: doctest, a watchdog that says where a test hangs before ctest kills it, and an error where no
// case was chosen.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "support/watchdog.hpp"

namespace {

// Copied here when a case starts, because a signal handler may neither allocate nor take a lock.
char running[256] = "no test case";

void write_all(char const* text) {
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, text, std::strlen(text));
}

std::atomic<void (*)()> report{nullptr};

void on_alarm(int) {
  write_all("watchdog: still in \"");
  write_all(running);
  write_all("\"\n");
  if (auto const more = report.load()) more();
  std::abort();
}

unsigned chosen = 0;

struct case_keeper : doctest::IReporter {
  explicit case_keeper(doctest::ContextOptions const&) {}
  void test_case_start(doctest::TestCaseData const& data) override {
    std::size_t const length = std::min(std::strlen(data.m_name), sizeof running - 1);
    std::memcpy(running, data.m_name, length);
    running[length] = '\0';
  }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const& stats) override { chosen = stats.numTestCasesPassingFilters; }
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};
DOCTEST_REGISTER_LISTENER("case_keeper", 1, case_keeper);

}  // namespace

namespace tutti::testing {

void report_when_hanging(void (*print)()) { report.store(print); }

}  // namespace tutti::testing

int main(int argc, char** argv) {
  if (char const* const seconds = std::getenv("TUTTI_TEST_SECONDS")) {
    ::signal(SIGALRM, on_alarm);
    ::alarm(static_cast<unsigned>(std::atoi(seconds)));
  }
  doctest::Context context{argc, argv};
  int const failed = context.run();
  if (context.shouldExit() || chosen > 0) return failed;
  write_all("no test case was chosen\n");
  return EXIT_FAILURE;
}
