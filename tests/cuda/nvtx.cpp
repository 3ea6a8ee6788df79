// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVTX ranges around calls, as seen by a library that NVTX loads like a profiler's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "launch/command.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/device/cuda/nvtx.cuh"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

// Run by the case below, in a process whose environment names a profiler.
TEST_CASE("within" * doctest::skip()) {
  run_threads(2, [](auto& comm) {
    std::array<float, 4> data{};
    for (int i = 0; i < 3; ++i) all_reduce(comm, data);
    auto group = comm.subgroup({0, 1});
    work first = broadcast(async(comm), data);
    work second = barrier(async(group));
    second.wait();
    first.wait();
  });
  CHECK_THROWS(run_threads(2, [](auto& comm) {
    std::vector<int> data(comm.rank() == 0 ? 1 : 2);
    reduce(comm, data);
  }));
}

TEST_CASE("a profiler sees each call of each rank begin and end") {
  temporary_folder const at;
  std::string const log = at.path() / "log";
  command c("env NVTX_INJECTION64_PATH=" NVTX_LISTENER " NVTX_LISTENER_LOG=" + log + " " +
            std::string(std::filesystem::read_symlink("/proc/self/exe")) + " --no-skip --test-case=within");
  REQUIRE(c.wait() == 0);
  std::ifstream file(log);
  std::multiset<std::string> started;
  std::set<std::string> running;
  int domains = 0;
  for (std::string line; std::getline(file, line);) {
    if (line == "domain tutti") ++domains;
    if (line.starts_with("start ")) {
      std::size_t const comma = line.find(", ");
      running.insert(line.substr(6, comma - 6));
      started.insert(line.substr(comma + 2));
    }
    if (line.starts_with("end ")) CHECK(running.erase(line.substr(4)) == 1);
  }
  CHECK(domains == 1);
  CHECK(running.empty());
  auto const count = [&](char const* text) {
    return std::ranges::count_if(started, [&](std::string const& s) { return s.starts_with(text); });
  };
  CHECK(count("16 bytes: all_reduce of 4 float with sum (") == 6);
  CHECK(count("16 bytes: broadcast of 4 float, root 0 (") == 2);
  CHECK(count("0 bytes: barrier (") == 2);
  CHECK(started.size() == 12);
}

TEST_CASE("nothing is shown where nobody listens") { CHECK(range_listener() == nullptr); }
