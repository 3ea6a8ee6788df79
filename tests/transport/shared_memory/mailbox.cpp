// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Channels: order, credits, short and long messages, references, messages of another call. Packets: rounds and sets.
// labels: threads optimised
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <sched.h>
#include <thread>
#include <vector>

#include "support/mesh.hpp"
#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;
using testing::mesh_as;

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

TEST_CASE("messages arrive in order, and short ones travel in the cache line of the flag") {
  pair p;
  CHECK(p.b.peek(0, 0, 7).state == arrival::nothing);
  send(p.a, 1, 0, {1, 2, 3}, 7);
  send(p.a, 1, 0, std::vector<int>(1000, 9), 7);
  arrival const first = p.b.peek(0, 0, 7);
  REQUIRE(first);
  CHECK(first.bytes == 12);
  CHECK(reinterpret_cast<int const*>(first.data)[2] == 3);
  p.b.release(0, 0);
  arrival const second = p.b.peek(0, 0, 7);
  REQUIRE(second);
  CHECK(second.bytes == 4000);
  CHECK(reinterpret_cast<std::uintptr_t>(second.data) % cache_line == 0);
  CHECK(reinterpret_cast<int const*>(second.data)[999] == 9);
}

TEST_CASE("a slot is aligned for its elements") {
  pair p;
  auto const offset = [](std::byte* place) { return reinterpret_cast<std::uintptr_t>(place) % cache_line; };
  CHECK(offset(p.a.claim(1, 0, 32, 16)) == 16);
  CHECK(offset(p.a.claim(1, 0, 32, 32)) == 0);
}

TEST_CASE("tracks are separate channels") {
  pair p;
  send(p.a, 1, 1, {5}, 7);
  CHECK_FALSE(p.b.peek(0, 0, 7));
  CHECK(p.b.peek(0, 1, 7));
}

TEST_CASE("a full channel has no free slot until the receiver releases one") {
  pair p;
  for (std::size_t i = 0; i < slots_of(2, 0); ++i) send(p.a, 1, 0, {static_cast<int>(i)}, 7);
  CHECK(p.a.claim(1, 0, 4, 4) == nullptr);
  CHECK_FALSE(p.a.consumed(1, 0, 1));
  REQUIRE(p.b.peek(0, 0, 7));
  p.b.release(0, 0);
  CHECK(p.a.consumed(1, 0, 1));
  CHECK_FALSE(p.a.consumed(1, 0, 2));
  send(p.a, 1, 0, {99}, 7);
  CHECK(p.a.claim(1, 0, 4, 4) == nullptr);
}

TEST_CASE(
    "four messages of up to 4 KiB have close places, and further ones slots; the first free place is used again") {
  mesh_as const elsewhere(false);
  pair p;
  std::vector<std::byte*> places;
  auto const send_filled = [&](std::size_t i) {
    places.push_back(p.a.claim(1, 0, max_close_bytes, 4));
    REQUIRE(places.back() != nullptr);
    std::memset(places.back(), static_cast<int>(i), max_close_bytes);
    p.a.publish(1, 0, max_close_bytes, false, 7);
  };
  auto const receive_filled = [&](std::size_t i) {
    arrival const got = p.b.peek(0, 0, 7);
    REQUIRE(got);
    CHECK(got.data == places[i]);
    for (std::size_t k : {std::size_t{0}, max_close_bytes - 1}) CHECK(got.data[k] == static_cast<std::byte>(i));
    p.b.release(0, 0);
  };
  for (std::size_t i = 0; i <= close_places; ++i) send_filled(i);
  for (std::size_t i = 1; i <= close_places; ++i) CHECK(places[i] != places[i - 1]);
  receive_filled(0);
  receive_filled(1);
  send_filled(5);
  send_filled(6);
  CHECK(places[5] == places[0]);
  CHECK(places[6] == places[1]);
  CHECK(p.a.claim(1, 0, max_close_bytes, 4) != places[2]);  // the receiver has not read what is there
  for (std::size_t i = 2; i <= 6; ++i) receive_filled(i);
  for (std::size_t i = 7; i < 12; ++i) {
    send_filled(i);
    CHECK(places[i] == places[0]);
    receive_filled(i);
  }
}

TEST_CASE("a close place that was claimed again is still free") {
  mesh_as const elsewhere(false);
  pair p;
  std::byte* const place = p.a.claim(1, 0, min_close_bytes, 4);
  CHECK(p.a.claim(1, 0, min_close_bytes, 4) == place);
  CHECK(p.a.claim(1, 0, max_close_bytes + 1, 4) != place);
  CHECK(p.a.claim(1, 0, min_close_bytes, 4) == place);
}

TEST_CASE("long messages that are streamed have slots") {
  mesh_as const elsewhere(false);
  pair p;
  std::byte* const place = p.a.claim(1, 0, max_close_bytes_streaming, 4);
  for (int i = 0; i < 20; ++i) p.a.gauge().took(std::chrono::microseconds(2), 4096);
  REQUIRE(p.a.gauge().streams(4096));
  CHECK(p.a.claim(1, 0, max_close_bytes_streaming, 4) == place);
  CHECK(p.a.claim(1, 0, max_close_bytes_streaming + 1, 4) != place);
  // A caller with a gauge of its own decides otherwise.
  CHECK(p.a.claim_for_message(1, 0, max_close_bytes_streaming + 1, 4, false) == place);
  CHECK(p.b.claim_for_message(0, 0, max_close_bytes_streaming + 1, 4, true) != p.b.claim(0, 0, min_close_bytes, 4));
}

TEST_CASE("a tagged message of more than 4 KiB takes two close places, which no other message gets until it is read") {
  mesh_as const elsewhere(false);
  pair p;
  std::vector<std::byte*> places;
  auto const send_filled = [&](std::size_t bytes, int value) {
    places.push_back(p.a.claim_for_message(1, 0, bytes, 4, false));
    std::memset(places.back(), value, bytes);
    p.a.publish(1, 0, bytes, false, 7);
  };
  auto const receive = [&](std::size_t bytes, int value) {
    arrival const got = p.b.peek(0, 0, 7);
    REQUIRE(got.bytes == bytes);
    for (std::size_t k = 0; k < bytes; ++k) REQUIRE(got.data[k] == static_cast<std::byte>(value));
    p.b.release(0, 0);
  };
  send_filled(max_close_bytes, 1);
  send_filled(2 * max_close_bytes, 2);  // in the third and fourth place
  send_filled(2 * max_close_bytes, 3);  // in a slot
  send_filled(min_close_bytes, 4);      // in the second place
  CHECK(p.a.claim_for_message(1, 0, min_close_bytes, 4, false) != places[1] + max_close_bytes);
  CHECK(places[1] == places[0] + 2 * max_close_bytes);
  CHECK((places[2] < places[0] || places[2] >= places[0] + close_places * max_close_bytes));
  CHECK(places[3] == places[0] + max_close_bytes);
  receive(max_close_bytes, 1);
  send_filled(2 * max_close_bytes, 5);  // in a slot: the second place is in use
  CHECK(places[4] != places[0]);
  receive(2 * max_close_bytes, 2);
  send_filled(2 * max_close_bytes, 6);
  CHECK(places[5] == places[1]);
  receive(2 * max_close_bytes, 3);
  receive(min_close_bytes, 4);
  receive(2 * max_close_bytes, 5);
  receive(2 * max_close_bytes, 6);
  // Not those of collectives.
  CHECK(p.a.claim(1, 0, max_close_bytes + 1, 4) != places[0]);
  CHECK(p.a.claim_for_message(1, 0, 2 * max_close_bytes + 1, 4, false) != places[0]);
}

TEST_CASE("ranks that have exchanged very many messages use close places") {
  mesh_as const elsewhere(false);
  struct aged : loopback {
    using loopback::loopback;
    using mailbox::skip;
  };
  aged a(std::make_shared<loopback::hub>(2, 2), 0);
  std::byte* const place = a.claim(1, 0, min_close_bytes, 4);
  a.skip(std::uint64_t{3} << 62);
  CHECK(a.claim(1, 0, min_close_bytes, 4) == place);
}

TEST_CASE("on a mesh, messages of all lengths have slots, which rotate") {
  mesh_as const there(true);
  pair p;
  std::vector<std::byte*> places;
  for (std::size_t const bytes : {min_close_bytes, max_close_bytes, min_close_bytes}) {
    places.push_back(p.a.claim_for_message(1, 0, bytes, 4, false));
    p.a.publish(1, 0, bytes, false, 7);
    CHECK(p.b.peek(0, 0, 7).data == places.back());
    p.b.release(0, 0);
  }
  CHECK(places[1] - places[0] == sizeof(slot));
  CHECK(places[2] - places[1] == sizeof(slot));
}

TEST_CASE("a message of another call is a mismatched") {
  pair p;
  send(p.a, 1, 0, {1}, 7);
  CHECK(p.b.peek(0, 0, 8).state == arrival::mismatched);
}

TEST_CASE("a reference is read in place") {
  pair p;
  std::vector<int> values{1, 2, 3};
  REQUIRE(p.a.is_shared(values.data(), 12));
  REQUIRE(p.a.claim(1, 0, 12, 4) != nullptr);
  p.a.publish_reference(1, 0, values.data(), false, 12, true, 7);
  arrival const got = p.b.peek(0, 0, 7);
  REQUIRE(got);
  CHECK(got.bytes == 12);
  CHECK(got.more);
  CHECK(reinterpret_cast<int const*>(got.data) == values.data());
}

TEST_CASE("an address in the sender's process is passed on unchanged") {
  pair p;
  auto const* const theirs = reinterpret_cast<std::byte const*>(std::uintptr_t{0x123456789abc});
  REQUIRE(p.a.claim(1, 1, 9000, 4) != nullptr);
  p.a.publish_reference(1, 1, theirs, true, 9000, false, 7);
  arrival const got = p.b.peek(0, 1, 7);
  REQUIRE(got);
  CHECK(got.foreign);
  CHECK(got.data == theirs);
  CHECK(got.bytes == 9000);
  p.b.release(0, 1);
  send(p.a, 1, 1, {5}, 7);  // the slot's next message is not taken for one
  CHECK_FALSE(p.b.peek(0, 1, 7).foreign);
}

TEST_CASE("channels have fewer slots with more ranks, and always a power of two") {
  for (int track = 0; track < 4; ++track)
    for (int ranks = 1; ranks <= 64; ++ranks) {
      CAPTURE(track);
      CAPTURE(ranks);
      CHECK(std::has_single_bit(slots_of(ranks, track)));
      CHECK(slots_of(ranks, track) >= 2);  // what the concept of a transport promises
      CHECK(slots_of(ranks, track) >= slots_of(ranks + 1, track));
      CHECK(slots_of(ranks, 0) >= slots_of(ranks, track));
    }
}

TEST_CASE("rounds of packets are counted from 1, and their sets are reused in turn") {
  pair p;
  CHECK(p.a.next_round() == 1);
  CHECK(p.a.next_round() == 2);
  for (bool const far : {false, true}) {
    std::size_t const sets = far ? far_sets : near_sets;
    CHECK(p.a.packets(0, 1, far) == p.b.packets(0, 1, far));
    CHECK(p.a.packets(0, 1, far) != p.a.packets(1, 1, far));
    CHECK(p.a.packets(0, 1, far) != p.a.packets(0, 1, !far));
    for (std::uint64_t round = 2; round <= sets; ++round) CHECK(p.a.packets(0, round, far) != p.a.packets(0, 1, far));
    CHECK(p.a.packets(0, sets + 1, far) == p.a.packets(0, 1, far));
  }
}

TEST_CASE("a set is free when every peer has read it") {
  for (bool const far : {false, true}) {
    auto const hub = std::make_shared<loopback::hub>(3, 1);
    loopback a{hub, 0}, b{hub, 1}, c{hub, 2};
    std::size_t const sets = !far ? near_sets : a.crowded() ? far_sets_sharing_cores : far_sets;
    for (std::uint64_t round = 1; round <= sets; ++round) CHECK(a.packets_writable(round, far));
    CHECK_FALSE(a.packets_writable(sets + 1, far));
    b.packets_read(2, true);
    CHECK_FALSE(a.packets_writable(sets + 1, far));
    c.packets_read(1, true);
    CHECK(a.packets_writable(sets + 1, far));
    CHECK_FALSE(a.packets_writable(sets + 2, far));  // c has read the first round alone
  }
}

TEST_CASE("where ranks share cores, a rank may get further ahead") {
  int const ranks = static_cast<int>(std::thread::hardware_concurrency()) + 1;
  loopback a{std::make_shared<loopback::hub>(ranks, 1), 0};
  REQUIRE(a.crowded());
  CHECK(a.packets_writable(far_sets_sharing_cores, true));
  CHECK_FALSE(a.packets_writable(far_sets_sharing_cores + 1, true));
  CHECK_FALSE(a.packets_writable(near_sets + 1, false));
  for (std::uint64_t round = 2; round <= far_sets_sharing_cores; ++round)
    CHECK(a.packets(0, round, true) != a.packets(0, 1, true));
  CHECK(a.packets(0, far_sets_sharing_cores + 1, true) == a.packets(0, 1, true));
}

TEST_CASE("ranks notice which of them were last on one core") {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  auto const shares = [](loopback& rank, int core) {
    bool out = false;
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
      patience const how = rank.waits();
      out = how.share_core(how.peers);
    }).join();
    return out;
  };
  pair p;
  CHECK_FALSE(shares(p.a, cores[0]));  // b has not waited yet
  CHECK(shares(p.b, cores[0]));
  CHECK(shares(p.a, cores[0]));
  if (cores.size() < 2) return;
  CHECK_FALSE(shares(p.b, cores[1]));
  CHECK_FALSE(shares(p.a, cores[0]));
}

TEST_CASE("far rounds say nothing of the near ones that follow") {
  pair p;
  CHECK(p.a.packets_writable(far_sets, true));
  CHECK_FALSE(p.a.packets_writable(far_sets + 1, false));
  p.b.packets_read(far_sets - 1, false);
  CHECK(p.a.packets_writable(far_sets + 1, false));
}

TEST_CASE("a peer that announces a round has read all previous ones") {
  pair p;
  p.a.packets_seen(1, 3);
  CHECK(p.a.packets_writable(near_sets + 2, false));
  CHECK_FALSE(p.a.packets_writable(near_sets + 3, false));  // the third itself it may be reading
  p.b.packets_read(3, false);
  CHECK(p.a.packets_writable(near_sets + 3, false));
}

TEST_CASE("a napping rank is woken") {
  pair p;
  std::jthread const sleeper([&] {
    while (!p.b.peek(0, 0, 7)) p.b.nap([&] { return bool(p.b.peek(0, 0, 7)); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  send(p.a, 1, 0, {1}, 7);
}
