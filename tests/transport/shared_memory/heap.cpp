// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocations of a heap do not overlap, freed ones are merged, and requests that do not fit are rejected.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tutti/transport/shared_memory/heap.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("allocations are whole pages, do not overlap, and can be reused") {
  alignas(page) static std::byte memory[16 * page];
  heap h(memory, sizeof memory);
  std::byte* const a = h.allocate(1);
  std::byte* const b = h.allocate(page + 1);
  std::byte* const c = h.allocate(0);
  REQUIRE(a != nullptr);
  CHECK(b == a + page);
  CHECK(c == b + 2 * page);
  CHECK(h.allocate(13 * page) == nullptr);
  h.deallocate(b, page + 1);
  CHECK(h.allocate(2 * page) == b);
  h.deallocate(a, 1);
  h.deallocate(c, 0);
  h.deallocate(b, 2 * page);
  CHECK(h.allocate(16 * page) == memory);
}

// A page of a file's memory is freed, unless it is locked.
TEST_CASE("what is allocated again is zero, even if its pages are locked") {
  for (bool const locked : {false, true}) {
    CAPTURE(locked);
    auto* const memory =
        static_cast<std::byte*>(::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory != MAP_FAILED);
    if (locked) REQUIRE(::mlock(memory, page) == 0);
    heap h(memory, page);
    std::byte* const first = h.allocate(page);
    REQUIRE(first == memory);
    std::memset(first, 7, page);
    h.deallocate(first, page);
    CHECK(h.allocate(page) == memory);
    CHECK(std::count(memory, memory + page, std::byte{0}) == static_cast<std::ptrdiff_t>(page));
    ::munmap(memory, page);
  }
}

TEST_CASE("an empty heap rejects every request") {
  heap h(nullptr, 0);
  CHECK(h.allocate(1) == nullptr);
}
