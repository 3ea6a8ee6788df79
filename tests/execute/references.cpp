// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which references peers may still be reading, in a part of memory and in all of it. A full list forgets instead of growing.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tutti/execute/references.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

struct fixture {
  std::shared_ptr<loopback::hub> hub = std::make_shared<loopback::hub>(2, 1);
  loopback a{hub, 0}, b{hub, 1};
  reference_list list;
  std::vector<int> memory = std::vector<int>(100);
  int const* data = memory.data();

  void refer(int const* begin, int const* end) {
    REQUIRE(a.claim(1, 0, 4, 4) != nullptr);
    a.publish_reference(1, 0, begin, false, static_cast<std::size_t>(end - begin) * sizeof(int), false, 7);
    list.add(a, {1, 0, a.published(1, 0), begin, end});
  }
  void read() {
    REQUIRE(b.peek(0, 0, 7));
    b.release(0, 0);
  }
};

}  // namespace

TEST_CASE("memory is free as soon as peers have read what overlaps it") {
  fixture f;
  CHECK(f.list.all_read(f.a));
  f.refer(f.data + 10, f.data + 20);
  f.refer(f.data + 20, f.data + 30);
  CHECK(f.list.all_read(f.a, f.data, f.data + 10));
  CHECK(f.list.all_read(f.a, f.data + 30, f.data + 40));
  CHECK_FALSE(f.list.all_read(f.a, f.data + 19, f.data + 20));
  f.read();
  CHECK(f.list.all_read(f.a, f.data + 10, f.data + 20));
  CHECK_FALSE(f.list.all_read(f.a, f.data + 10, f.data + 21));
  CHECK_FALSE(f.list.all_read(f.a));
  CHECK_FALSE(f.list.empty());
  f.read();
  CHECK(f.list.all_read(f.a));
  CHECK(f.list.empty());
}

TEST_CASE("a full list forgets what was read") {
  fixture f;
  f.list.reserve(2);
  for (int i = 0; i < 10; ++i) {
    f.refer(f.data + i, f.data + i + 1);
    f.read();
  }
  f.refer(f.data, f.data + 1);
  CHECK_FALSE(f.list.all_read(f.a));
  f.read();
  CHECK(f.list.all_read(f.a));
}
