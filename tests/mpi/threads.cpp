// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A progress thread beside other calls, if the program has initialised MPI for threads.
// ranks: 4
// timeout: 300
// ulfm: too
#include <doctest/doctest.h>

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "mpi/ranks.hpp"
#include "started/threads.hpp"
#include "support/temporary_folder.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// False if the MPI does not support threads.
bool initialise() {
  static bool const threads = [] {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    std::atexit([] { MPI_Finalize(); });
    return provided == MPI_THREAD_MULTIPLE;
  }();
  return threads;
}

}  // namespace

TEST_CASE("a progress thread lives beside operations of all kinds over MPI") {
  REQUIRE(initialise());
  auto const stress = [](auto& comm) {
    progress_thread const moves_all;
    check_stress(comm, 7, 500);
  };
  CHECK(on_ranks(4, stress) == "");
  CHECK(on_ranks(4, hierarchical_ranks, stress) == "");
}

TEST_CASE("a call and messages, driven by two threads, meet the same peers for the first time over MPI") {
  REQUIRE(initialise());
  CHECK(on_ranks(4, [](auto& comm) {
          progress_thread const moves_all;
          for (int round = 0; round < 50; ++round) {
            auto fresh = comm.split(0).value();
            int const ranks = fresh.size();
            std::vector<int> sums(300, 1), in(static_cast<std::size_t>(ranks)), out(in.size(), fresh.rank());
            std::vector<work> all{
                all_reduce(async(fresh), sums, sum{}, {.algorithm = algorithm_id::recursive_doubling})};
            for (int peer = 0; peer < ranks; ++peer) {
              auto const block = static_cast<std::size_t>(peer);
              all.push_back(isend(fresh, std::span(&out[block], 1), peer));
              all.push_back(irecv(fresh, std::span(&in[block], 1), peer));
            }
            wait_for_all(all);
            expect(sums == std::vector<int>(300, ranks), "a sum");
            for (int peer = 0; peer < ranks; ++peer) expect(in[static_cast<std::size_t>(peer)] == peer, "a message");
          }
        }) == "");
}

TEST_CASE("a progress thread lives beside messages, agree, revoke and shrink over MPI") {
  REQUIRE(initialise());
  temporary_folder const at;
  std::string const prefix = at.path() / "threads";
  ::setenv("TUTTI_TRACE", prefix.c_str(), 1);
  for (int const ranks : {2, 4}) {
    CHECK(on_ranks(ranks, [&](auto& comm) {
            check_beside_progress_thread(comm, comm.engine().transport().survives(), prefix);
          }) == "");
    CHECK(on_ranks(ranks, hierarchical_ranks, [&](auto& comm) { check_beside_progress_thread(comm, true, prefix); }) ==
          "");
  }
  ::unsetenv("TUTTI_TRACE");
}
