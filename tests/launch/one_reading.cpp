// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// init reads the time that it waits once, so that the meeting and the communicator cannot differ.
// labels: processes waits alone unsanitized
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/tutti.hpp"

namespace {

std::atomic<int> readings{0};

}  // namespace

// In place of that of the C library.
extern "C" char* getenv(char const* name) noexcept {
  if (std::string_view(name) == "TUTTI_TIMEOUT") ++readings;
  std::size_t const length = std::strlen(name);
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one)
    if (std::strncmp(*one, name, length) == 0 && (*one)[length] == '=') return *one + length + 1;
  return nullptr;
}

TEST_CASE("init reads TUTTI_TIMEOUT once") {
  using namespace tutti::testing;
  auto const body = [] {
    readings = 0;
    auto comm = tutti::init();
    expect(readings == 1, "read " + std::to_string(readings) + " times");
    expect(comm.engine().environment.timeout == std::chrono::seconds(30), "another time");
    tutti::barrier(comm);
  };
  std::string const job = "tutti-one-reading-" + std::to_string(::getpid());
  pid_t const ranks[] = {fork_rank(job, 0, 2, "30", body), fork_rank(job, 1, 2, "30", body)};
  for (pid_t const rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}
