// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distances between ranks: levels and their text, for made-up locations, and measured by ranks of this machine.
// labels: processes
#include "tutti/call/topology.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/launch/measure_links.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

tuning with_links() {
  owned_table table;
  table.links[distance::cache] = {150'000, 25'000};
  table.links[distance::across] = {31'200'000, 8'500'000};
  return {table, "this test"};
}

}  // namespace

TEST_CASE("two ranks are as far from each other as their caches and nodes") {
  topology const t({{0, 0}, {0, 0}, {0, 4}, {0, no_cache}, {7, 0}, {7, no_cache}}, with_links());
  CHECK(t.ranks() == 6);
  CHECK(t.between(0, 1) == distance::cache);
  CHECK(t.between(1, 2) == distance::node);
  CHECK(t.between(2, 3) == distance::node);
  CHECK(t.between(3, 5) == distance::across);
  CHECK(t.between(4, 0) == distance::across);
  CHECK(t.latency(0, 1) == doctest::Approx(0.15));
  CHECK(t.bandwidth(0, 1) == doctest::Approx(40));
  CHECK(t.latency(5, 0) == doctest::Approx(31.2));
  CHECK(t.text() ==
        "within a last-level cache, 5 caches of 1 to 2 ranks: latency 0.15 us, bandwidth 40 GB/s (from the tuning "
        "table)\n"
        "within a node, 2 nodes of 2 to 4 ranks: latency 0.198 us, bandwidth 28.2 GB/s (from times of collectives)\n"
        "within a node by MPI messages, 2 nodes of 2 to 4 ranks: latency 0.5 us, bandwidth 5 GB/s (assumed)\n"
        "across nodes, 2 nodes of 2 to 4 ranks: latency 31.2 us, bandwidth 0.118 GB/s (from the tuning table)");
}

TEST_CASE("there are the levels at which there are two ranks") {
  auto const text = [](std::vector<location> places) { return topology(std::move(places), with_links()).text(); };
  CHECK(text({{0, 0}}) == "");
  CHECK(text({{0, 0}, {0, 0}}) ==
        "within a last-level cache, 1 cache of 2 ranks: latency 0.15 us, bandwidth 40 GB/s (from the tuning table)");
  CHECK(text({{0, no_cache}, {0, no_cache}}).starts_with("within a node, 1 node of 2 ranks: "));
  CHECK(text({{0, 0}, {1, 0}}).starts_with("across nodes, 2 nodes of 1 rank: "));
  CHECK(topology(std::vector<location>(24'756), with_links()).levels().size() == 1);
}

TEST_CASE("what is measured at start is the same at all ranks, and explain says so") {
  ::setenv("TUTTI_TOPOLOGY", "measure", 1);
  for (int const ranks : {2, 3})
    run_local(ranks, [](auto& comm) {
      auto const mine = topology_of(comm);
      double const times[2] = {mine.latency(0, 1), mine.bandwidth(0, 1)};
      std::vector<double> all(2 * static_cast<std::size_t>(comm.size()));
      all_gather(comm, times, all);
      for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == times[i % 2], "ranks have other times");
      expect(times[0] > 0 && times[1] > 0, "no times");
      std::string const text = explain<float>(comm, collective::all_reduce, 1000).text;
      expect(text.find(" ranks: ") != text.npos && text.find("GB/s (measured at start)") != text.npos, text);
    });
  ::setenv("TUTTI_TOPOLOGY", "", 1);
  run_local(2, [](auto& comm) {
    topology const there = topology_of(comm);
    std::string const text = there.text();
    // The built-in table for this processor may contain the times of links.
    bool const measured = shipped_tables[find_shipped_table()].table.links[there.between(0, 1)].known();
    expect(text.find(measured ? "(from the tuning table)" : "(from times of collectives)") != text.npos, text);
  });
  ::unsetenv("TUTTI_TOPOLOGY");
}

TEST_CASE("where a rank goes while links are measured, the others throw") {
  descriptor const segment = shm::create(3, all_tracks);
  run_local(3, [&](auto& outer) {
    countdown const until(std::chrono::seconds(60));
    std::string said = "nothing";
    try {
      communicator<shm> comm(std::make_unique<shm>(segment, outer.rank(), 3, all_tracks, until));
      if (outer.rank() != 1) detail::measure_links(comm.engine());
    } catch (error const& e) {
      said = e.what();
    }
    expect((outer.rank() == 1) == (said == "nothing"), said);
    expect(outer.rank() != 0 || said.find("rank 1 ended before the ranks had agreed") != said.npos, said);
    barrier(outer);
  });
}

TEST_CASE("another wish than to measure is refused by all ranks") {
  ::setenv("TUTTI_TOPOLOGY", "map", 1);
  std::string const failure = start_failure(2);
  INFO(failure);
  CHECK(failure.find("TUTTI_TOPOLOGY=\"map\" is not known; set it to measure, or unset it") != std::string::npos);
  ::unsetenv("TUTTI_TOPOLOGY");
}
