// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The system forbids one rank to read the memory of its peers: no rank pulls, and all other protocols go on.
// labels: processes
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/system_calls.hpp"
#include "tutti/launch/agree.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

constexpr int rank_count = 3;
constexpr int no_filters = 77;

// Joins as this rank and does f(comm), in a process of its own.
template <class F>
pid_t start_rank(descriptor const& file, int rank, bool may_read, F const& f) {
  pid_t const process = ::fork();
  if (process != 0) return process;
  if (!may_read && !filter_system_calls({SYS_process_vm_readv}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW))
    ::_exit(no_filters);
  try {
    communicator<shm> comm(
        std::make_unique<shm>(file, rank, rank_count, all_tracks, countdown(std::chrono::seconds(20))));
    detail::agree_on_tuning(comm.engine());
    f(comm);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    ::_exit(1);
  }
  ::_exit(0);
}

// The exit codes of all ranks; `forbidden` is the one that may not read, or -1.
template <class F>
std::vector<int> run_ranks(int forbidden, F const& f) {
  descriptor const file = shm::create(rank_count, all_tracks);
  std::vector<pid_t> processes;
  for (int r = 0; r < rank_count; ++r) processes.push_back(start_rank(file, r, r != forbidden, f));
  std::vector<int> codes;
  for (pid_t const process : processes) {
    int status = -1;
    ::waitpid(process, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

void work_without_pull(communicator<shm>& comm) {
  expect(!comm.engine().transport().pulls(), "this rank would pull");
  std::vector<float> data(std::size_t{1} << 20, 1);
  bool refused = false;
  try {
    all_reduce(comm, data, sum{}, {.algorithm = algorithm_id::two_shot, .protocol = protocol::pull});
  } catch (error const& e) {
    refused = e.code() == error_code::bad_argument &&
              std::string_view(e.what()).find("protocol pull reads the memory of peers, which the system") !=
                  std::string_view::npos;
  }
  expect(refused, "protocol pull was not refused, or by other words");
  for (collective const c : every_collective)
    for (std::size_t const count : {std::size_t{2}, std::size_t{1} << 18})
      conformance(comm).check<float>(c, {.count = count, .root = 1}, sum{});
}

}  // namespace

TEST_CASE("where one rank may not read its peers' memory, all know and none pulls") {
  for (int const forbidden : {0, 1, rank_count - 1}) {
    CAPTURE(forbidden);
    auto const codes = run_ranks(forbidden, work_without_pull);
    if (codes[static_cast<std::size_t>(forbidden)] == no_filters) {
      MESSAGE("skipped: the system takes no filters of system calls");
      return;
    }
    for (int const code : codes) CHECK(code == 0);
  }
}

TEST_CASE("where all may, all pull, or the test above would prove nothing") {
  auto const codes =
      run_ranks(-1, [](auto& comm) { expect(comm.engine().transport().pulls(), "this rank would not"); });
  if (codes == std::vector<int>(rank_count, 1)) MESSAGE("the system lets no process read another's memory");
  else CHECK(codes == std::vector<int>(rank_count, 0));
}
