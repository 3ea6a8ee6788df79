// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The room holds one aligned object at a time, and allocates only for an object that is larger than all before.
#include "tutti/core/reused_room.hpp"

#include <doctest/doctest.h>

#include <cstdint>

namespace {

int alive = 0;

struct base {
  base() { ++alive; }
  base(base const&) = delete;
  base& operator=(base const&) = delete;
  virtual ~base() { --alive; }
  virtual void const* self() const { return this; }
};
template <int Bytes, int Alignment>
struct alignas(Alignment) sized : base {
  void const* self() const override { return this; }
  char data[Bytes] = {};
};

}  // namespace

TEST_CASE("a room holds one object at a time") {
  {
    tutti::detail::reused_room<base> room;
    CHECK_FALSE(room);
    room.emplace<sized<100, 64>>();
    void const* const first = room->self();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    room.emplace<sized<100, 64>>();
    CHECK(room->self() == first);
    CHECK(alive == 1);
    room.emplace<sized<1, 8>>();
    room.emplace<sized<5000, 128>>();
    CHECK(alive == 1);
    room.reset();
    CHECK_FALSE(room);
    CHECK(alive == 0);
    room.emplace<base>();
  }
  CHECK(alive == 0);
}
