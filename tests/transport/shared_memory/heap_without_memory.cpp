// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that has no memory left can return what it has allocated from a segment.
// labels: alone
#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <vector>

#include "support/replaced_new.hpp"
#include "tutti/transport/shared_memory/heap.hpp"

using namespace tutti::detail;

namespace {

bool memory_is_out = false;

}  // namespace

void tutti::testing::note_allocation(std::size_t) {
  if (memory_is_out) throw std::bad_alloc();
}

TEST_CASE("deallocation needs no memory, however many free pieces it makes") {
  alignas(page) static std::byte memory[64 * page];
  heap h(memory, sizeof memory);
  std::vector<std::byte*> all;
  while (std::byte* const one = h.allocate(page)) all.push_back(one);
  REQUIRE(all.size() == 64);
  memory_is_out = true;
  for (std::size_t i = 0; i < all.size(); i += 2) h.deallocate(all[i], page);
  for (std::size_t i = 1; i < all.size(); i += 2) h.deallocate(all[i], page);
  memory_is_out = false;
  CHECK(h.allocate(sizeof memory) == memory);
}
