// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that are started later join ranks that exist already.
// labels: processes waits
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/grow.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace std::chrono_literals;
using tutti::testing::error_of, tutti::testing::expect, tutti::testing::expect_error, tutti::testing::fork_rank;

static_assert(!std::is_copy_constructible_v<newcomers> && std::is_nothrow_move_constructible_v<newcomers>);

namespace {

std::string name_of_growth() {
  static int made = 0;
  return "grow-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
}

pid_t fork_newcomer(std::string const& name, int number,
                    std::function<void(std::optional<join_request>&)> const& body) {
  return fork_rank(name + "-newcomer", 0, 1, "60", [&] {
    std::optional<join_request> request(std::in_place, name, number);
    body(request);
  });
}

// On rank 0: waits until so many wait.
template <class Comm>
newcomers find_all(Comm& comm, std::string const& name, std::vector<int> const& numbers) {
  newcomers out;
  while (comm.is_main() && out.size() < numbers.size()) {
    std::this_thread::sleep_for(1ms);
    out = find_newcomers(name, numbers);
  }
  return out;
}

int code_of(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("processes that wait become the next ranks, with what rank 0 tells them") {
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    std::string const name = name_of_growth();
    std::vector<pid_t> processes;
    for (int const number : {4, 2})
      processes.push_back(fork_newcomer(name, number, [&](std::optional<join_request>& request) {
        auto [comm, word] = request->wait(60s);
        expect(word == 77 && comm.size() == ranks + 2, "another word or size");
        expect(comm.rank() == ranks + (number == 2 ? 0 : 1), "newcomers are not in the order of their numbers");
        expect(all_reduce(comm, number, sum{}) == 6, "another sum");
        request.reset();
        barrier(comm);
      }));
    CHECK_NOTHROW(run_local(ranks, [&](auto& comm) {
      expect(!grow(comm, name, {}).comm, "grown by nobody");
      auto larger = grow(comm, name, find_all(comm, name, {2, 4}), {.within = 60s, .word = 77});
      expect(larger.comm && larger.vote.gone.empty() && larger.why.empty(), "not grown: " + larger.why);
      expect(larger.comm->rank() == comm.rank(), "a rank has another number");
      expect(all_reduce(*larger.comm, 0, sum{}) == 6, "another sum");
      comm = *std::move(larger.comm);
      barrier(comm);
      if (comm.is_main()) expect(find_newcomers(name, std::vector{2, 4}).size() == 0, "ranks are found as newcomers");
    }));
    for (pid_t const process : processes) CHECK(code_of(process) == 0);
  }
}

TEST_CASE("a process that ends before the meeting leaves the ranks as they are, and the next one joins") {
  std::string const name = name_of_growth();
  pid_t const first = fork_newcomer(name, 0, [](std::optional<join_request>&) { std::this_thread::sleep_for(60s); });
  pid_t const next = fork_newcomer(name, 1, [](std::optional<join_request>& request) {
    auto joined = request->wait(60s);
    expect(all_reduce(joined.comm, 1, sum{}) == 3, "another sum");
  });
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    auto const found = find_all(comm, name, {0});
    if (comm.is_main()) ::kill(first, SIGKILL);
    grown const none = grow(comm, name, found, {.within = 60s});
    expect(!none.comm && none.vote.gone.empty() && (none.vote.flags & 1) == 0, "grown by a process that has ended");
    // The other rank may notice first that rank 0 has given up.
    expect(none.why.find(comm.is_main() ? "rank 2, newcomer 0, has ended" : "rank ") != std::string::npos &&
               none.why.find("timed out") == std::string::npos,
           "another reason: " + none.why);
    expect(none.intact() && all_reduce(comm, 1, sum{}) == 2, "the ranks cannot continue");
    auto larger = grow(comm, name, find_all(comm, name, {1}), {.within = 60s});
    expect(larger.comm && all_reduce(*larger.comm, 1, sum{}) == 3, "the next one has not joined: " + larger.why);
    comm = *std::move(larger.comm);
  }));
  CHECK(code_of(first) == -SIGKILL);
  CHECK(code_of(next) == 0);
}

TEST_CASE("a rank that votes instead of meeting the others is not waited for") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 0, [](std::optional<join_request>& request) { request->wait(1s); });
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    auto const found = find_all(comm, name, {0});
    if (comm.rank() == 1) {
      std::array<std::uint64_t, 2> heard{};
      broadcast(comm, heard, 0);
      expect(comm.agree(0).flags == 0, "another result of the vote");
      return;
    }
    grown const none = grow(comm, name, found, {.within = 60s});
    expect(!none.comm && none.vote.flags == 0 && !none.intact(), "grown without a rank");
    expect(none.why.find("rank 1 has given up the meeting") != std::string::npos, "another reason: " + none.why);
  }));
  CHECK(code_of(process) == 1 + static_cast<int>(error_code::timeout));
}

TEST_CASE("ranks that only look do not take a newcomer away from rank 0") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 0, [](std::optional<join_request>& request) {
    auto joined = request->wait(60s);
    expect(all_reduce(joined.comm, 1, sum{}) == 4, "another sum");
  });
  CHECK_NOTHROW(run_local(3, [&](auto& comm) {
    newcomers found = find_all(comm, name, {0});
    barrier(comm);
    if (!comm.is_main()) found = find_newcomers(name, std::vector{0});  // rank 0 has found it first
    expect(found.size() == 1, "a rank does not find it");
    barrier(comm);
    auto larger = grow(comm, name, found, {.within = 60s});
    expect(larger.comm && all_reduce(*larger.comm, 1, sum{}) == 4, "not grown: " + larger.why);
  }));
  CHECK(code_of(process) == 0);
}

TEST_CASE("no rank gets the larger communicator if one says that it has failed") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 0, [](std::optional<join_request>& request) {
    auto joined = request->wait(60s);
    error_of([&] { return all_reduce(joined.comm, 1, sum{}); });
  });
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    grown const none =
        grow(comm, name, find_all(comm, name, {0}), {.within = 60s, .flags = comm.rank() == 1 ? ~2 : ~0});
    expect(!none.comm && !none.intact() && none.why.empty(), "grown, although a rank has failed: " + none.why);
  }));
  CHECK(code_of(process) == 0);
}

TEST_CASE("a newcomer that does not come in time is reported with the option that gives it more") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 0, [](std::optional<join_request>&) { std::this_thread::sleep_for(60s); });
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    grown const none = grow(comm, name, find_all(comm, name, {0}), {.within = 500ms});
    expect(!none.comm && none.intact() && !none.why.empty(), "grown by a process that does not come");
    expect(none.why.find("raise grow_options::within") != std::string::npos &&
               none.why.find("TUTTI_") == std::string::npos,
           "it names other settings: " + none.why);
  }));
  ::kill(process, SIGKILL);
  CHECK(code_of(process) == -SIGKILL);
}

TEST_CASE("grow refuses to wait for no time at all") {
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    for (auto const within : {0ns, -1ns})
      expect_error(error_of([&] { return grow(comm, "never", {}, {.within = within}).vote.flags; }),
                   error_code::bad_argument, "grow_options::within is not positive");
    expect(all_reduce(comm, 1, sum{}) == 2, "the ranks cannot continue");
  }));
}

TEST_CASE("ranks that grow under different names learn so") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 0, [](std::optional<join_request>&) { std::this_thread::sleep_for(60s); });
  for (bool const waits : {false, true}) {
    CAPTURE(waits);
    CHECK_NOTHROW(run_local(2, [&](auto& comm) {
      newcomers const found = waits ? find_all(comm, name, {0}) : newcomers();
      bool const other = comm.rank() == 1;
      std::optional<std::string> why;  // empty if this rank meets the fault in grow already
      error const e = error_of([&] {
        why = grow(comm, other ? "other" : name, found, {.within = 60s}).why;
        barrier(comm);
        return 0;
      });
      expect_error(e, error_code::mismatch, "rank 1 passes the name \"other\" to grow");
      if (other && waits) comm.agree(0);
      if (!other && waits && why)
        expect(why->find("rank 1 passes the name") != std::string::npos, "another reason: " + *why);
    }));
  }
  ::kill(process, SIGKILL);
  CHECK(code_of(process) == -SIGKILL);
}

TEST_CASE("a process that is turned away is told") {
  std::string const name = name_of_growth();
  pid_t const process = fork_newcomer(name, 3, [](std::optional<join_request>& request) {
    expect_error(error_of([&] { return request->wait(60s).word; }), error_code::bad_argument,
                 "turned this process away");
  });
  newcomers found;
  while (found.size() == 0) found = find_newcomers(name, std::vector{1, 3});
  CHECK(found.numbers() == std::vector{3});
  found.turn_away();
  CHECK(code_of(process) == 0);
  CHECK(find_newcomers(name, std::vector{3}).size() == 0);
}

TEST_CASE("two processes cannot wait under the same number") {
  std::string const name = name_of_growth();
  join_request const first(name, 1);
  expect_error(error_of([&] {
                 join_request const second(name, 1);
                 return 0;
               }),
               error_code::system, "cannot wait to join as member 1");
}
