// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A communicator's rank and size, and work that only rank 0 does.
// labels: threads
#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("all ranks of shared memory are on one machine, those of a group too") {
  std::atomic<int> wrong = 0;
  run_threads(5, [&](auto& comm) {
    if (comm.local_rank() != comm.rank() || comm.local_size() != 5) ++wrong;
    auto half = comm.split(comm.rank() % 2).value();
    if (half.local_rank() != comm.rank() / 2 || half.local_size() != half.size()) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("main_only calls rank 0 alone and gives its result to nobody else") {
  std::atomic<int> calls = 0, results = 0;
  run_threads(5, [&](auto& comm) {
    comm.main_only([&] { calls += 1 + comm.rank(); });
    std::optional<std::string> const read = comm.main_only([&] { return std::string("settings"); });
    if (read.has_value() == comm.is_main() && read.value_or("settings") == "settings") ++results;
    static_assert(std::is_void_v<decltype(comm.main_only([] {}))>);
  });
  CHECK(calls == 1);
  CHECK(results == 5);
}

TEST_CASE("what main_only's function throws is thrown at rank 0") {
  CHECK_THROWS_WITH(
      run_threads(2, [](auto& comm) { comm.main_only([] { throw std::runtime_error("no bread in the house"); }); }),
      "no bread in the house");
}
