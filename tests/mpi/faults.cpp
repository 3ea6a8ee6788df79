// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks over MPI that are late, do not arrive, or get an error of their MPI: all get the same error, and none hangs.
// ranks: 4
// labels: alone waits
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mpi.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "mpi/ranks.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

std::atomic<int> sends_that_fail{0};

// The error that f(comm) threw on this rank, if any.
template <class F>
error error_of(int ranks, F&& f) {
  error out({.what = "nothing was thrown"});
  CHECK(on_ranks(ranks, [&](auto& comm) { out = testing::error_of([&] { f(comm); }); }) == "");
  return out;
}

// The message without the parts that are specific to this rank.
std::string common_part(error const& e) {
  std::string const text = e.what();
  return text.substr(0, text.find(" [rank"));
}

bool same_on_all_ranks(error const& e) {
  char mine[1024]{}, first[1024]{};
  common_part(e).copy(mine, sizeof mine - 1);
  std::copy(std::begin(mine), std::end(mine), first);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  INFO("this rank: " << mine);
  INFO("rank 0: " << first);
  bool const same = std::string(mine) == first;
  CHECK(same);
  return same;
}

}  // namespace

// The profiling interface, by which MPI lets a program intercept calls of the library.
extern "C" int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  if (sends_that_fail > 0 && sends_that_fail-- > 0) return MPI_ERR_NO_MEM;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
extern "C" int MPI_Issend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  if (sends_that_fail > 0 && sends_that_fail-- > 0) return MPI_ERR_NO_MEM;
  return PMPI_Issend(data, count, type, to, tag, comm, request);
}

TEST_CASE("a rank that comes late over MPI is waited for") {
  for (algorithm_id const id : {algorithm_id::one_shot, algorithm_id::native})
    CHECK(on_ranks(4, [&](auto& comm) {
            for (int late = 0; late < comm.size(); ++late)
              for (int call = 0; call < 3; ++call) {
                if (call == 0 && comm.rank() == late) std::this_thread::sleep_for(200ms);
                std::vector<int> v(100, 1);
                all_reduce(comm, v, sum{}, {.algorithm = id});
                if (v.back() != comm.size()) throw std::runtime_error("a wrong sum");
              }
          }) == "");
}

TEST_CASE("a timeout over MPI names who has not arrived and what it called last") {
  for (algorithm_id const id : {algorithm_id::one_shot, algorithm_id::native}) {
    error const e = error_of(4, [&](auto& comm) {
      std::vector<int> v(3, 1);
      all_reduce(comm, v, sum{}, {.algorithm = id});
      if (comm.rank() == 2) std::this_thread::sleep_for(4s);
      all_reduce(comm, v, sum{}, {.algorithm = id, .timeout = 2s});  // rank 2 may find all messages that it needs
      barrier(comm);
    });
    INFO(std::string(e.what()));
    CHECK(e.code() == error_code::timeout);
    CHECK(contains(e, "call #2, all_reduce of 3 int with sum"));
    CHECK(contains(e, "rank 2 has not arrived: it is in or after call #1, all_reduce of 3 int with sum"));
    CHECK(!contains(e, "rank 3 has not arrived"));
    same_on_all_ranks(e);
  }
}

TEST_CASE("an error of the MPI is an error of all ranks, with the MPI's words") {
  error const e = error_of(4, [&](auto& comm) {
    std::vector<int> v(3, 1);
    all_reduce(comm, v);
    if (comm.rank() == 3) sends_that_fail = 1;
    for (int i = 0; i < 3; ++i) all_reduce(comm, v);
  });
  INFO(std::string(e.what()));
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(MPI_ERR_NO_MEM, words, &length);
  CHECK(e.code() == error_code::system);
  CHECK(contains(e, words));
  CHECK(contains(e, "between rank 3 and rank "));
  same_on_all_ranks(e);
}

TEST_CASE("what is not a communicator for collectives is refused") {
  world();
  CHECK_THROWS_AS(static_cast<void>(from_mpi(MPI_COMM_NULL)), error);
}

TEST_CASE("protocols that need shared memory are refused over MPI") {
  CHECK(on_ranks(2, [](auto& comm) {
          std::vector<int> v(3, 1), many(10'000);
          for (protocol const how : {protocol::direct, protocol::pull})
            CHECK_THROWS_AS(all_reduce(comm, v, sum{}, {.algorithm = algorithm_id::one_shot, .protocol = how}), error);
          for (protocol const how : {protocol::packet, protocol::staged})
            all_reduce(comm, v, sum{}, {.algorithm = algorithm_id::one_shot, .protocol = how});
          CHECK(v == std::vector<int>(3, 4));
          CHECK_THROWS_WITH_AS(
              all_reduce(comm, many, sum{}, {.algorithm = algorithm_id::one_shot, .protocol = protocol::packet}),
              doctest::Contains("packets are for one_shot"), error);
        }) == "");
}

namespace {

// What ranks wait for that are not in the MPI: a file that rank 0 makes.
class signal_outside_mpi {
 public:
  signal_outside_mpi() {
    std::string const made =
        (std::filesystem::temp_directory_path() / ("tutti-signal-" + std::to_string(::getpid()))).string();
    made.copy(path_, sizeof path_ - 1);
    MPI_Bcast(path_, sizeof path_, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  signal_outside_mpi(signal_outside_mpi const&) = delete;
  signal_outside_mpi& operator=(signal_outside_mpi const&) = delete;
  ~signal_outside_mpi() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_sender_) std::filesystem::remove(path_);
  }

  void send() { is_sender_ = std::ofstream(path_).good(); }
  void wait() const {
    for (auto const limit = deadline::after(20s); !std::filesystem::exists(path_) && !limit.passed();)
      std::this_thread::sleep_for(1ms);
  }

 private:
  char path_[256] = {};
  bool is_sender_ = false;
};

// Open MPI 4 and 5 do not tell that a message is under way to a process of the same node until that has been in the MPI.
bool knows_what_is_under_way() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return contains(std::string(text), "MPICH");
}

}  // namespace

// Only ranks below the finder of a fault may have found one that counts instead of it.
TEST_CASE("a rank that reports a fault waits for no confirmation of ranks above it") {
  for (bool const in_mpi : {true, false}) {
    auto shortest = deadline::clock::duration::max();
    for (int round = 0; round < 5; ++round) {
      CHECK(on_ranks(world().size(), [&](auto& comm) {
              signal_outside_mpi signal;
              MPI_Barrier(MPI_COMM_WORLD);  // nobody is in a call of tutti when rank 0 revokes
              if (comm.rank() == 0) {
                comm.revoke("enough");
                auto const begin = deadline::clock::now();
                error const e = testing::error_of([&] { barrier(comm); });
                shortest = std::min(shortest, deadline::clock::now() - begin);
                expect_error(e, error_code::revoked, "enough");
                signal.send();
              }
              int token = 0;
              if (in_mpi) MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
              else signal.wait();
              expect_error(testing::error_of([&] { barrier(comm); }), error_code::revoked, "enough");
            }) == "");
    }
    if (in_mpi || knows_what_is_under_way()) CHECK((world().rank() != 0 || shortest < 1s));
  }
}
