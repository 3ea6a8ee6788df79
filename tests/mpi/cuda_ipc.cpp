// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that share device memory over an MPI communicator, over nodes, and inside nodes.
// ranks: 4
// labels: once
// timeout: 200
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <vector>

#include "mpi/ranks.hpp"
#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

template <class Comm>
void check_devices(Comm& comm) {
  sharing_stand_in const device;
  std::size_t const n = 3000, p = static_cast<std::size_t>(comm.size());
  device_array<sharing_stand_in, float> const in(device, n), out(device, n * p);
  std::vector<float> values(n, static_cast<float>(comm.rank())), got(n * p);
  {
    cuda_ipc ranks(comm, device, 4096);
    device.copy({}, in.data(), values.data(), n * sizeof(float));
    all_gather(ranks, in, out);
    all_reduce(ranks, in);
    device.copy({}, got.data(), out.data(), n * p * sizeof(float));
    device.copy({}, values.data(), in.data(), n * sizeof(float));
    ranks.work().wait();
  }
  expect(values == std::vector<float>(n, static_cast<float>(p * (p - 1) / 2)), "a sum");
  for (std::size_t i = 0; i < n * p; ++i) expect(got[i] == static_cast<float>(i / n), "a block of each");
}

}  // namespace

TEST_CASE("over an MPI") {
  CHECK(on_ranks(4, [](auto& comm) { check_devices(comm); }).empty());
  CHECK(on_ranks(3, [](auto& comm) { check_devices(comm); }).empty());
}

TEST_CASE("over nodes") {
  CHECK(on_ranks(4, hierarchical_ranks, [](auto& comm) { check_devices(comm); }).empty());
}

TEST_CASE("in two levels, inside nodes and across them") {
  auto const check = [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto ranks = on(comm, device, {.node = comm.rank() / 2, .arena = 4096, .slices = {.slice = 2048}});
    expect(ranks.path() == device_path::two_level, ranks.explain());
    check_reductions_of<std::uint32_t>(ranks, comm, 1000, sum{});
    check_movement_of<float>(ranks, comm, 1000);
    device_array<sharing_stand_in, float> const mine(device, 700), theirs(device, 700);
    std::vector<float> values(700, static_cast<float>(comm.rank()));
    device.copy({}, mine.data(), values.data(), 700 * sizeof(float));
    device_batch around(ranks);
    around.send(mine, (comm.rank() + 1) % 4).recv(theirs, (comm.rank() + 3) % 4);
    around.run();
    device.copy({}, values.data(), theirs.data(), 700 * sizeof(float));
    ranks.work().wait();
    expect(values == std::vector<float>(700, static_cast<float>((comm.rank() + 3) % 4)), "a message");
  };
  CHECK(on_ranks(4, check).empty());
  CHECK(on_ranks(4, on_nodes_of(2), check).empty());
  CHECK(on_ranks(4, hierarchical_ranks, check).empty());
}
