// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Channels: order, credits, short and long messages, references, messages of another call.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/transport/loopback.hpp"

using namespace tutti;

namespace {

struct pair {
  std::shared_ptr<loopback::hub> hub = std::make_shared<loopback::hub>(2, 2);
  loopback a{hub, 0}, b{hub, 1};
};

void send(loopback& from, int to, int track, std::vector<int> const& values, std::uint32_t tag) {
  std::byte* const place = from.claim(to, track, values.size() * sizeof(int), alignof(int));
  REQUIRE(place != nullptr);
  std::memcpy(place, values.data(), values.size() * sizeof(int));
  from.publish(to, track, values.size() * sizeof(int), false, tag);
}

}  // namespace

TEST_CASE("messages arrive in order, short ones in the line of the flag") {
  pair p;
  CHECK(p.b.look(0, 0, 7).state == arrival::nothing);
  send(p.a, 1, 0, {1, 2, 3}, 7);
  send(p.a, 1, 0, std::vector<int>(1000, 9), 7);
  arrival const first = p.b.look(0, 0, 7);
  REQUIRE(first);
  CHECK(first.bytes == 12);
  CHECK(reinterpret_cast<int const*>(first.data)[2] == 3);
  p.b.release(0, 0);
  arrival const second = p.b.look(0, 0, 7);
  REQUIRE(second);
  CHECK(second.bytes == 4000);
  CHECK(reinterpret_cast<std::uintptr_t>(second.data) % cache_line == 0);
  CHECK(reinterpret_cast<int const*>(second.data)[999] == 9);
}

TEST_CASE("a place is aligned for its elements") {
  pair p;
  auto const offset = [](std::byte* place) { return reinterpret_cast<std::uintptr_t>(place) % cache_line; };
  CHECK(offset(p.a.claim(1, 0, 32, 16)) == 16);
  CHECK(offset(p.a.claim(1, 0, 32, 32)) == 0);
}

TEST_CASE("tracks are separate channels") {
  pair p;
  send(p.a, 1, 1, {5}, 7);
  CHECK_FALSE(p.b.look(0, 0, 7));
  CHECK(p.b.look(0, 1, 7));
}

TEST_CASE("a full channel has no place until the receiver releases one") {
  pair p;
  for (std::size_t i = 0; i < slots; ++i) send(p.a, 1, 0, {static_cast<int>(i)}, 7);
  CHECK(p.a.claim(1, 0, 4, 4) == nullptr);
  CHECK_FALSE(p.a.consumed(1, 0, 1));
  REQUIRE(p.b.look(0, 0, 7));
  p.b.release(0, 0);
  CHECK(p.a.consumed(1, 0, 1));
  CHECK_FALSE(p.a.consumed(1, 0, 2));
  send(p.a, 1, 0, {99}, 7);
  CHECK(p.a.claim(1, 0, 4, 4) == nullptr);
}

TEST_CASE("a message of another call is a stranger") {
  pair p;
  send(p.a, 1, 0, {1}, 7);
  CHECK(p.b.look(0, 0, 8).state == arrival::stranger);
}

TEST_CASE("a reference is read where it lies") {
  pair p;
  std::vector<int> values{1, 2, 3};
  REQUIRE(p.a.reaches(values.data(), 12));
  REQUIRE(p.a.claim(1, 0, 12, 4) != nullptr);
  p.a.refer(1, 0, values.data(), 12, true, 7);
  arrival const got = p.b.look(0, 0, 7);
  REQUIRE(got);
  CHECK(got.bytes == 12);
  CHECK(got.more);
  CHECK(reinterpret_cast<int const*>(got.data) == values.data());
}

TEST_CASE("a rank that naps is woken") {
  pair p;
  std::jthread const sleeper([&] {
    while (!p.b.look(0, 0, 7)) p.b.nap([&] { return bool(p.b.look(0, 0, 7)); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  send(p.a, 1, 0, {1}, 7);
}
