// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flight records over MPI contain as many calls and messages as over other transports.
// ranks: 2
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mpi.h>
#include <string>

#include <nlohmann/json.hpp>

#include "mpi/ranks.hpp"
#include "support/expect.hpp"
#include "support/temporary_folder.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a record over MPI has 64 calls and 64 messages") {
  temporary_folder const at;
  CHECK(on_ranks(2, [&](auto& comm) {
          int const peer = 1 - comm.rank();
          std::array<int, 4> data{}, got{};
          for (int i = 0; i < 70; ++i) {
            all_reduce(comm, data);
            send_recv(comm, data, peer, got, peer);
          }
          comm.write_record(at.path() / "mpi");
        }) == "");
  std::ifstream file(std::filesystem::directory_iterator(at.path())->path());
  auto const record = nlohmann::json::parse(file);
  CHECK(record["calls"].size() == 64);
  CHECK(record["calls"].front()["sequence"] == 7);
  CHECK(record["calls"].back()["collective"] == "all_reduce");
  CHECK(record["messages"].size() == 64);
  for (auto const& m : record["messages"]) CHECK(m["ended"] == true);
  std::uint64_t identity = std::stoull(record["identity"].get<std::string>());
  MPI_Bcast(&identity, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  CHECK(record["identity"] == std::to_string(identity));
  CHECK(identity != 0);
}

TEST_CASE("a record over nodes has the calls of the only node, and one more those over MPI") {
  temporary_folder const at;
  ::setenv("TUTTI_TRACE", (at.path() / "trace").c_str(), 1);
  auto const records_of = [&](char const* name) {
    std::map<std::string, nlohmann::json> out;  // by the transport that each of them names
    for (auto const& entry : std::filesystem::directory_iterator(at.path())) {
      if (!entry.path().filename().string().starts_with(name)) continue;
      std::ifstream file(entry.path());
      auto const record = nlohmann::json::parse(file);
      out[record["transport"]] = record;
    }
    return out;
  };
  CHECK(on_ranks(2, hierarchical_ranks, [&](auto& comm) {
          std::array<int, 4> data{}, got{};
          for (int i = 0; i < 3; ++i) all_reduce(comm, data);
          send_recv(comm, data, 1 - comm.rank(), got, 1 - comm.rank());
          comm.write_record(at.path() / "node");
          all_reduce<native>(comm, data);
          comm.write_record(at.path() / "both");
          call_statistics const sums = comm.statistics(collective::all_reduce);
          expect(sums.calls == 4 && sums.bytes == 4 * sizeof data, "calls were not counted");
        }) == "");
  ::unsetenv("TUTTI_TRACE");
  auto const alone = records_of("node"), both = records_of("both");
  REQUIRE(alone.size() == 1);
  REQUIRE(both.size() == 2);
  for (auto const& record : {alone.at("shm"), both.at("shm")}) {
    CHECK(record["calls"].size() == 3);
    CHECK(record["calls"].back()["where"].get<std::string>().find("recorder.cpp:") != std::string::npos);
    CHECK(record["messages"].size() == 2);
  }
  CHECK(both.at("hierarchical")["calls"].size() == 1);
  CHECK(both.at("hierarchical")["calls"][0]["algorithm"] == "native");
}
