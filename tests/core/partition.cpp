// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts and slices cover a count without gaps, in order, as evenly as grains allow.
#include <doctest/doctest.h>

#include <initializer_list>

#include "tutti/core/partition.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("parts follow each other and cover the count") {
  for (std::size_t const count : {0u, 1u, 2u, 7u, 16u, 1000u, 4099u})
    for (int const parts : {1, 2, 3, 7, 16, 33})
      for (std::size_t const grain : {1u, 8u, 64u}) {
        std::size_t next = 0, least = count, most = 0;
        for (int i = 0; i < parts; ++i) {
          extent const e = part(count, parts, i, grain);
          CHECK(e.begin == next);
          CHECK((e.end() % grain == 0 || e.end() == count));
          next = e.end();
          least = e.count < least ? e.count : least;
          most = e.count > most ? e.count : most;
        }
        CHECK(next == count);
        CHECK(most - least <= 2 * grain);
        if (grain == 1) CHECK(most - least <= 1);
      }
}

TEST_CASE("parts of counts past 2^32 are exact") {
  std::size_t const count = (std::size_t{1} << 40) + 5;
  CHECK(part(count, 3, 0).count + part(count, 3, 1).count + part(count, 3, 2).count == count);
  CHECK(part(count, 3, 2).end() == count);
}

TEST_CASE("slices cover a count, and are empty past its end") {
  for (std::size_t const count : {0u, 1u, 15u, 16u, 17u, 100u}) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < slices(count, 16); ++i) {
      extent const e = slice_of(count, 16, i);
      CHECK(e.begin == next);
      CHECK(e.count > 0);
      next = e.end();
    }
    CHECK(next == count);
    CHECK(slice_of(count, 16, slices(count, 16)).count == 0);
    CHECK(slice_of(count, 16, slices(count, 16) + 3).count == 0);
  }
}
