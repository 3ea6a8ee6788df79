// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split, subgroup and mesh over shm; members that are killed, and what groups leave behind.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>

#include "call/groups.hpp"
#include "support/few_cores.hpp"
#include "support/held_by_process.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// The resources of this process.
std::pair<std::ptrdiff_t, int> own_resources() { return {open_files(), segments()}; }

// KiB of memory shared by ranks that this process has touched.
int touched() {
  int sum = 0;
  bool shared = false;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Rss:")) sum += shared ? std::stoi(line.substr(4)) : 0;
    else if (line.find(" kB") == std::string::npos) shared = line.find("/memfd:tutti") != std::string::npos;
  }
  return sum;
}

}  // namespace

TEST_CASE("groups have the right ranks and serve every collective over shm") {
  for (int ranks = 1; ranks <= (sanitized ? 4 : 8); ranks += sanitized ? 3 : 1) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_splits(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_subgroups(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_overlapping_groups(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_meshes(comm); }));
    CHECK_NOTHROW(run_local(ranks, [&](auto& comm) { check_random_groups(comm, static_cast<unsigned>(ranks)); }));
  }
}

TEST_CASE("a fault or the end of one communicator does not reach another over shm") {
  for (int const ranks : {2, 5}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_independence(comm); }));
  CHECK_NOTHROW(run_local(5, [](auto& comm) { check_numbering(comm); }));
  CHECK_NOTHROW(run_local(4, [](auto& comm) { check_revoked_mesh(comm); }));
}

TEST_CASE("groups know that other ranks use their cores over shm") {
  few_cores const two(2);
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_crowded_groups(comm); }));
}

TEST_CASE("survivors have the cores of the dead") {
  few_cores const two(2);
  std::string said;
  try {
    run_local(3, [&](auto& comm) {
      if (comm.rank() == 2) ::raise(SIGKILL);
      static_cast<void>(error_of([&] { barrier(comm); }));
      auto rest = comm.shrink();
      expect(rest.engine().transport().crowded() == (two.count() < 2), "two survivors have two cores");
    });
  } catch (error const& e) {
    said = e.what();
  }
  CHECK(said.find("rank 2 ") != said.npos);
  CHECK(said.find("\n  rank") == said.npos);  // no other failed
}

TEST_CASE("what makes no group is refused over shm") {
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_refused_lists(comm); }));
  CHECK_NOTHROW(run_local(6, [](auto& comm) { check_refused_meshes(comm); }));
}

TEST_CASE("a killed member is named at once, and the others go on in a group of their own") {
  for (int const victim : {0, 1, 3}) {
    auto const began = deadline::clock::now();
    try {
      run_local(4, [&](auto& comm) {
        barrier(comm);
        if (comm.rank() == victim) ::raise(SIGKILL);
        error const e = error_of([&] { static_cast<void>(comm.subgroup({1, 0, 3, 2})); });
        expect_error(e, error_code::rank_lost, "rank " + std::to_string(victim));
        expect(e.peer() == victim, "the wrong rank is to blame");
        std::vector<int> survivors{0, 1, 2, 3};
        std::erase(survivors, victim);
        auto rest = comm.subgroup(survivors);
        check_all_collectives(rest);
        barrier(rest);
      });
    } catch (error const& e) {
      CAPTURE(e.what());
      CHECK(e.peer() == victim);
      CHECK(std::string(e.what()).find("\n  rank") == std::string::npos);  // no other failed
    }
    CHECK(deadline::clock::now() - began < std::chrono::seconds(50));
  }
}

TEST_CASE("a member that is killed in a group is named in it") {
  CHECK_THROWS_WITH_AS(run_local(3,
                                 [](auto& comm) {
                                   auto pair = comm.split(comm.rank() == 1 ? no_color : 0);
                                   if (comm.rank() == 2) ::raise(SIGKILL);
                                   if (pair) barrier(*pair);
                                 }),
                       doctest::Contains("rank 1 (process "), error);
}

TEST_CASE("groups take no files, and give their memory back") {
  run_local(4, [](auto& comm) {
    std::vector<int> ones(10'000, 1);
    auto const before = own_resources();
    for (int repeat = 0; repeat < 10; ++repeat) {
      std::vector<std::optional<std::remove_cvref_t<decltype(comm)>>> groups;
      for (int i = 0; i < 10; ++i) {
        groups.push_back(comm.split(comm.rank() % 2));
        all_reduce(*groups.back(), ones);
      }
      expect(own_resources() == std::pair(before.first, before.second + 10), "groups hold more than a mapping each");
    }
    expect(own_resources() == before, "groups have left something behind");
  });
}

TEST_CASE("groups that are not used take next to no memory") {
  run_local(2, [](auto& comm) {
    int const before = touched();
    std::vector<std::remove_cvref_t<decltype(comm)>> groups;
    for (int i = 0; i < 10; ++i) groups.push_back(comm.subgroup({0, 1}));
    int const each = (touched() - before) / 10;
    expect(each > 0 && each < 64, std::to_string(each) + " KiB a group");
  });
}

TEST_CASE("a group of many ranks") {
  CHECK_NOTHROW(run_local(40, [](auto& comm) {
    std::vector<int> all(40);
    std::iota(all.begin(), all.end(), 0);
    auto group = comm.split(0).value();
    expect_members(group, comm.rank(), all);
  }));
}

TEST_CASE("run_local within a rank, and groups of its ranks") {
  CHECK_NOTHROW(run_local(2, [](auto& outer) {
    auto pair = outer.split(0).value();
    run_local(3, [](auto& inner) { check_splits(inner); });
    expect_members(pair, outer.rank(), {0, 1});
  }));
}
