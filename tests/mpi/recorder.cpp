// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flight records over MPI: as many calls and messages as anywhere.
// ranks: 2
#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "mpi/ranks.hpp"
#include "support/temporary_folder.hpp"

using namespace tutti;
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
}
