// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many slices a peer still owes.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "tutti/message/sliced_receives.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

constexpr std::size_t slice = 100;

transfer receive_of(std::size_t bytes, std::uint64_t id, std::uint64_t address) {
  transfer out;
  out.what = transfer::receive;
  out.source = 1;
  out.got = bytes;
  out.id = id;
  out.address = address;
  return out;
}

}  // namespace

TEST_CASE("a peer owes the slices of all receives until they have arrived, whole or not") {
  sliced_receives all(slice);
  requested_slices peer;
  transfer first = receive_of(250, 1, 8), second = receive_of(100, 2, 0);
  all.add(first, peer);
  all.add(second, peer);
  CHECK(peer.missing == 4);
  CHECK(peer.receives == 2);
  CHECK(peer.readable == 1);
  CHECK(all.find(1) == &first);
  CHECK(all.find_readable(1) == &first);
  for (std::size_t const n : {100u, 100u, 50u}) all.note_arrival(1, &first, n, peer);
  CHECK(peer.missing == 1);
  all.remove(first, peer);
  CHECK_FALSE(all.any_readable());
  CHECK(all.find(1) == nullptr);
  all.note_arrival(2, &second, 100, peer);
  all.remove(second, peer);
  CHECK(peer.missing == 0);
  CHECK(peer.stale == 0);
  CHECK_FALSE(all.any());
}

TEST_CASE("a peer owes the slices of a message that cannot be fetched after all") {
  sliced_receives all(slice);
  requested_slices peer;
  transfer r = receive_of(250, 1, 8);
  all.add(r, peer);
  all.end_reading(r, peer);
  CHECK_FALSE(all.any_readable());
  CHECK(all.find_readable(1) == nullptr);
  CHECK(all.find(1) == &r);
  CHECK(peer.receives == 1);
  CHECK(peer.readable == 0);
  CHECK(peer.missing == 3);
}

TEST_CASE("slices of a message that was fetched may still arrive, until a later one does") {
  sliced_receives all(slice);
  requested_slices peer;
  transfer fetched = receive_of(500, 1, 8), next = receive_of(300, 2, 8);
  all.add(fetched, peer);
  all.add(next, peer);
  all.note_arrival(1, &fetched, 100, peer);
  all.remove(fetched, peer);
  CHECK(peer.stale == 4);
  CHECK(peer.missing == 7);
  all.note_arrival(1, nullptr, 0, peer);
  CHECK(peer.missing == 6);
  all.note_arrival(2, &next, 100, peer);  // its sender has skipped the others
  CHECK(peer.stale == 0);
  CHECK(peer.missing == 2);
  all.note_arrival(1, nullptr, 0, peer);  // never happens, but must not count below zero
  CHECK(peer.missing == 2);
}

TEST_CASE("peers are counted apart, and nothing is left after all are dropped") {
  sliced_receives all(slice);
  requested_slices one, other;
  transfer a = receive_of(100, 1, 8), b = receive_of(1000, 2, 8);
  all.add(a, one);
  all.add(b, other);
  CHECK(one.missing == 1);
  CHECK(other.missing == 10);
  all.clear();
  CHECK_FALSE(all.any());
  CHECK_FALSE(all.any_readable());
}
