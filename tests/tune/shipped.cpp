// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table that a machine without one of its own uses follows from its processor.
#include "tutti/tune/shipped.hpp"

#include <doctest/doctest.h>

#include <string_view>

#include "tutti/tune/find.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

std::string_view machine_for(processor const& p) { return shipped_tables.at(shipped_for(p)).table.machine; }

}  // namespace

TEST_CASE("each table is for the processor that it was measured on") {
  for (shipped_table const& one : shipped_tables) CHECK(machine_for(one.measured_on) == one.table.machine);
}

TEST_CASE("another family of a vendor has a table of this vendor, another vendor the first table") {
  CHECK(machine_for({"AuthenticAMD", 99}) == tables::amd_zen5.machine);
  CHECK(machine_for({"GenuineIntel", 19}) == tables::intel_xeon.machine);
  CHECK(machine_for({"HygonGenuine", 24}) == shipped.machine);
  CHECK(machine_for({}) == shipped.machine);
}

TEST_CASE("on Zen 3, whose rules precede those of Zen 5, two ranks fetch blocks of 512 KiB to 4 MiB") {
  for (collective const c : {collective::all_gather, collective::all_to_all})
    for (std::size_t const bytes : {std::size_t{8}, std::size_t{1} << 18, std::size_t{1} << 19, std::size_t{1} << 20,
                                    std::size_t{1} << 22, std::size_t{1} << 23})
      for (bool const pulls : {true, false}) {
        detail::problem const p{.what = c, .bytes = bytes, .ranks = 2, .pulls = pulls};
        detail::rule const *const here = tables::amd_zen3.find(p), *const there = tables::amd_zen5.find(p);
        REQUIRE((here != nullptr && there != nullptr));
        CHECK((here->how == protocol::pull) == (pulls && bytes >= 1 << 19 && bytes <= 1 << 22));
        if (here->how != protocol::pull) CHECK(here->algorithm == there->algorithm);
      }
}

TEST_CASE(
    "on Zen 1, ranks fetch larger blocks, unless memory is closed to peers, and take the rules of Zen 5 for other "
    "calls") {
  for (collective const c : {collective::all_gather, collective::all_to_all, collective::gather, collective::broadcast})
    for (std::size_t const bytes : {std::size_t{8}, std::size_t{1} << 15, std::size_t{1} << 16, std::size_t{1} << 25})
      for (bool const pulls : {true, false}) {
        detail::problem const p{.what = c, .bytes = bytes, .ranks = 2, .pulls = pulls};
        detail::rule const *const here = tables::amd_zen1.find(p), *const there = tables::amd_zen5.find(p);
        REQUIRE((here != nullptr && there != nullptr));
        bool const exchanges = all_hear_all(c);
        CHECK((here->how == protocol::pull) == (exchanges && pulls && bytes > 1 << 15));
        if (!exchanges) CHECK(*here == *there);
      }
}

TEST_CASE("this machine has one of the tables") { CHECK(find_shipped_table() < shipped_tables.size()); }

TEST_CASE("every table serves every collective that it was measured for") {
  for (shipped_table const& one : shipped_tables) {
    CAPTURE(one.table.machine);
    CHECK(one.table.apart.hop > 0);
    CHECK(one.table.crowded.hop > 0);
    for (rule const& r : one.table.rules) CHECK((r.algorithm != algorithm_id::automatic && r.nanoseconds > 0));
  }
}

TEST_CASE(
    "where ranks share cores, large private arrays are fetched, and small messages are packets for 64 ranks too") {
  for (int const ranks : {4, 8, 16, 64}) {
    detail::problem p{.what = collective::scatter, .bytes = 1 << 20, .ranks = ranks, .crowded = true, .pulls = true};
    detail::rule const* const large = tables::amd_zen5.find(p);
    REQUIRE(large != nullptr);
    CHECK(large->how == protocol::pull);
    p.bytes = 64;
    for (collective const c : {collective::all_reduce, collective::broadcast, collective::scatter}) {
      p.what = c;
      detail::rule const* const small = tables::amd_zen5.find(p);
      REQUIRE(small != nullptr);
      CHECK(small->algorithm == algorithm_id::one_shot);
      CHECK(small->how == protocol::automatic);
    }
    p.what = collective::scatter, p.bytes = 1 << 20, p.pulls = false;
    detail::rule const* const closed = tables::amd_zen5.find(p);
    CHECK((closed == nullptr || closed->how == protocol::automatic));
  }
}
