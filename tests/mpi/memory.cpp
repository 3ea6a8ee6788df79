// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a communicator of many ranks: what it takes for each of them, and for those that a rank has talked to.
// ranks: 1
// labels: alone
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <unistd.h>

#include "mpi/pretended_ranks.hpp"
#include "support/replaced_new.hpp"
#include "tutti/message/messenger.hpp"
#include "tutti/transport/mpi/notice_state.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

std::size_t allocated_bytes = 0;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// What a communicator of this many ranks allocates, also for a moment: for each rank of its machine, which here are all, 32 bytes.
std::size_t bytes_of_communicator(int ranks) {
  std::size_t const before = allocated_bytes;
  communicator<mpi> comm(transport_among(ranks));
  CHECK(comm.size() == ranks);
  return allocated_bytes - before;
}

}  // namespace

void tutti::testing::note_allocation(std::size_t bytes) { allocated_bytes += bytes; }

TEST_CASE("a communicator takes less than 120 bytes for each rank that it has not talked to") {
  bytes_of_communicator(2);  // what is allocated once
  std::size_t const some = bytes_of_communicator(10'000), more = bytes_of_communicator(20'000);
  CHECK(more - some < 10'000 * 120);
}

TEST_CASE("tagged messages take less than 40 bytes for each rank that this one has exchanged none with") {
  auto const bytes_among = [](int ranks) {
    auto const transport = transport_among(ranks);
    std::size_t const before = allocated_bytes;
    detail::messenger<mpi> messages(*transport);
    messages.poll();
    return allocated_bytes - before;
  };
  CHECK(bytes_among(20'000) - bytes_among(10'000) < 10'000 * 40);
}

TEST_CASE("a channel through which nothing has gone takes address space, but next to no memory") {
  auto const transport = transport_among(20'000);
  std::size_t const before = resident_bytes();
  constexpr int peers = 200;
  for (int peer = 1; peer <= peers; ++peer) open_channels(*transport, peer);
  CHECK(resident_bytes() - before < peers * std::size_t{32 * 1024});
}

TEST_CASE("the more ranks there are, the longer a rank waits before it tells them so") {
  using detail::mpi_notice_state;
  CHECK(mpi_notice_state::quiet_time(2) == std::chrono::milliseconds(50));
  for (int const ranks : {2, 64, 1000, 100'000})
    CHECK(ranks <= 1280 * mpi_notice_state::quiet_time(ranks) / std::chrono::seconds(1));
}
