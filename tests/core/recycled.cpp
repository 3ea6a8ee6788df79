// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tutti/core/recycled.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace td = tutti::detail;

TEST_CASE("recycled_memory: a released block is the next of its size, and of no other") {
  void* const block = td::recycled_memory::allocate(300);
  td::recycled_memory::release(block, 300);
  void* const small = td::recycled_memory::allocate(200);
  CHECK(small != block);
  void* const again = td::recycled_memory::allocate(512);
  if (!td::checks_addresses) CHECK(again == block);
  td::recycled_memory::release(small, 200);
  td::recycled_memory::release(again, 512);
}

TEST_CASE("recycled_memory: as many blocks as 64 KiB hold are kept, of which the last that was released is the next") {
  if (td::checks_addresses) return;  // keeps none
  for (std::size_t const bytes : {1u, 256u, 1000u, 4096u}) {
    std::vector<void*> all((64 << 10) / ((bytes + 255) / 256 * 256));
    for (void*& one : all) one = td::recycled_memory::allocate(bytes);
    for (void* const one : all) td::recycled_memory::release(one, bytes);
    std::vector<void*> again(all.size());
    for (void*& one : again) one = td::recycled_memory::allocate(bytes);
    std::ranges::reverse(again);
    CHECK(again == all);
    for (void* const one : all) td::recycled_memory::release(one, bytes);
  }
}

TEST_CASE("recycled_memory: blocks do not overlap, whoever released them") {
  for (std::size_t const bytes : {1u, 256u, 257u, 1000u, 4096u, 4097u, 100'000u})
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte*> all(300);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::byte*>(td::recycled_memory::allocate(bytes));
        std::memset(all[i], static_cast<int>(i % 256), bytes);
      }
      bool kept = true;
      for (std::size_t i = 0; i < all.size(); ++i)
        kept = kept && all[i][0] == static_cast<std::byte>(i % 256) &&
               all[i][bytes - 1] == static_cast<std::byte>(i % 256);
      CHECK(kept);
      CHECK(std::set<std::byte*>(all.begin(), all.end()).size() == all.size());
      auto const release = [&] {
        for (std::byte* const one : all) td::recycled_memory::release(one, bytes);
      };
      if (round == 1) std::thread(release).join();
      else release();
    }
}

TEST_CASE("recycled: shared objects are constructed and destroyed as usual") {
  struct counted {
    explicit counted(int& n) : alive(n) { ++alive; }
    ~counted() { --alive; }
    int& alive;
    std::array<std::byte, 500> more{};
  };
  int alive = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<counted>> all;
    for (int i = 0; i < 200; ++i) all.push_back(std::allocate_shared<counted>(td::recycled<counted>(), alive));
    CHECK(alive == 200);
    all.clear();
    CHECK(alive == 0);
  }
}
