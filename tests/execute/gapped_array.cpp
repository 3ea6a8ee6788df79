// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any part of an array with gaps is gathered and scattered, whole elements or not; arrays that share bytes are found.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "tutti/execute/gapped_array.hpp"

using namespace tutti::detail;

namespace {

// An array in `memory` with the places of its bytes in order.
struct placed_array {
  gapped_array array;
  std::vector<std::size_t> places;
};
struct stride_and_count {
  std::size_t count;
  std::ptrdiff_t stride;
};
placed_array placed(std::vector<std::byte>& memory, std::size_t begin, std::size_t run,
                    std::vector<stride_and_count> const& indices) {
  placed_array out{{memory.data() + begin, run}, {}};
  std::vector<std::size_t> runs{begin};
  for (auto const& [count, stride] : indices) {
    out.array.add(count, stride);
    std::vector<std::size_t> inner;
    for (std::size_t const r : runs)
      for (std::size_t i = 0; i < count; ++i) inner.push_back(r + i * static_cast<std::size_t>(stride));
    runs = inner;
  }
  for (std::size_t const r : runs)
    for (std::size_t i = 0; i < run; ++i) out.places.push_back(r + i);
  return out;
}

std::vector<placed_array> some_arrays(std::vector<std::byte>& memory) {
  return {
      placed(memory, 3, 40, {}),
      placed(memory, 0, 4, {{9, 8}}),
      placed(memory, 4, 4, {{9, 8}}),
      placed(memory, 2, 4, {{9, 8}}),
      placed(memory, 190, 1, {{7, -3}}),
      placed(memory, 100, 12, {{3, 40}, {2, -16}}),
      placed(memory, 0, 3, {{2, 90}, {3, 20}, {4, 5}}),
      placed(memory, 150, 16, {{3, 16}}),
      placed(memory, 10, 2, {{0, 4}}),
      placed(memory, 120, 8, {{1, 4}, {5, 8}}),
  };
}

}  // namespace

TEST_CASE("every part of an array is gathered and scattered") {
  std::vector<std::byte> memory(200);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i);
  auto const before = memory;
  for (auto const& [array, places] : some_arrays(memory)) {
    REQUIRE(array.bytes() == places.size());
    for (std::size_t begin = 0; begin <= places.size(); ++begin)
      for (std::size_t n = 0; begin + n <= places.size(); ++n) {
        std::vector<std::byte> part(n + 1, std::byte{255});
        array.gather(begin, n, part.data());
        bool same = part[n] == std::byte{255};
        for (std::size_t i = 0; i < n; ++i) same &= part[i] == before[places[begin + i]];
        CHECK(same);

        auto expected = before;
        for (std::size_t i = 0; i < n; ++i)
          part[i] = expected[places[begin + i]] = static_cast<std::byte>(201 + i % 50);
        array.scatter(part.data(), begin, n);
        CHECK(memory == expected);
        memory = before;
      }
  }
}

TEST_CASE("the runs of an array make all of it") {
  std::vector<std::byte> memory(200);
  for (auto const& [array, places] : some_arrays(memory)) {
    for (std::size_t const begin : {std::size_t{0}, places.size() / 3}) {
      std::vector<std::size_t> found;
      array.for_each_run(begin, array.bytes() - begin, [&](std::byte* run, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) found.push_back(static_cast<std::size_t>(run + i - memory.data()));
      });
      CHECK(std::ranges::equal(found, std::span(places).subspan(begin)));
    }
  }
}

TEST_CASE("arrays that share a byte overlap, and columns of one matrix do not") {
  std::vector<std::byte> memory(200);
  auto const all = some_arrays(memory);
  for (auto const& a : all)
    for (auto const& b : all) {
      bool shared = false;
      for (std::size_t const p : a.places)
        for (std::size_t const q : b.places) shared |= p == q;
      CHECK((may_overlap(a.array, b.array) || !shared));
      CHECK(may_overlap(a.array, b.array) == may_overlap(b.array, a.array));
      CHECK(are_same(a.array, b.array) == (&a == &b));
    }
  CHECK(!may_overlap(all[1].array, all[2].array));  // columns of 4 bytes of a matrix of 8
  CHECK(may_overlap(all[1].array, all[3].array));
  CHECK(may_overlap(all[2].array, all[3].array));
  CHECK(!may_overlap(all[8].array, all[0].array));  // an empty array
}
