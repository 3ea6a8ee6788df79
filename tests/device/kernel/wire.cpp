// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce whose data travel as a narrower type, among ranks with a device each, compared with arithmetic that is written here
// again; and ranks that send the data as they are. Ranks are threads.
// labels: threads
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "support/wire_reference.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/staged/cuda_staged.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

template <class Wire, class Ranks>
void check_wire(Ranks& ranks, std::size_t n, std::size_t skip, algorithm_id by) {
  std::vector<float> const mine = wire_values(ranks.rank(), n);
  device_array<sharing_stand_in, float> const in(ranks.on(), n + skip), out(ranks.on(), n + skip);
  ranks.on().copy({}, in.data() + skip, mine.data(), n * sizeof(float));
  std::span const from(in.data() + skip, n), to(out.data() + skip, n);
  all_reduce(ranks, from, to, wire<Wire>(fused{sum{}, scale{0.5f}, scale{3.0f}}), {.algorithm = by});
  std::vector<float> got(n);
  ranks.on().copy({}, got.data(), to.data(), n * sizeof(float));
  ranks.work().wait();
  std::vector<float> const expected = wire_reference<Wire>(ranks.size(), n, by, 0.5f, 3.0f);
  for (std::size_t i = 0; i < n; ++i)
    expect(same_bits<float>(got[i], expected[i]),
           join({name(by), " of ", n, " elements on ", ranks.size(), " ranks is wrong at element ", i}));
}

}  // namespace

TEST_CASE_TEMPLATE("every rank has the bits of its own arithmetic", Wire, bfloat16, tutti::half,
                   block_scaled<float8_e4m3>, block_scaled<float8_e5m2, 256>) {
  for (int const p : {2, 3, 5})
    run_threads(p, [](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      cuda_ipc ranks(comm, device, 16 << 10);
      for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
        for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{700}, std::size_t{5003}})
          for (std::size_t const skip : {std::size_t{0}, std::size_t{1}}) check_wire<Wire>(ranks, n, skip, by);
    });
}

TEST_CASE("an optimiser's state in shards, and weights that travel as bfloat16") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 16 << 10);
    std::size_t const n = 1003;
    extent const mine = shard_of(ranks, n);
    device_array<sharing_stand_in, float> const gradient(device, n), weights(device, n), kept(device, mine.count),
        speed(device, mine.count);
    std::vector<float> const ones(n, 1.0f), zeros(n);
    std::vector<float> got(n), own(mine.count);
    device.copy({}, gradient.data(), ones.data(), n * sizeof(float));
    device.copy({}, kept.data(), ones.data(), mine.count * sizeof(float));
    device.copy({}, speed.data(), zeros.data(), mine.count * sizeof(float));
    fused const step{sum{}, unchanged{}, with_shards(sgd_step{.rate = 0.001f}, kept.data(), speed.data())};
    all_reduce(ranks, gradient, weights, wire<bfloat16>(step));
    device.copy({}, got.data(), weights.data(), n * sizeof(float));
    device.copy({}, own.data(), kept.data(), mine.count * sizeof(float));
    ranks.work().wait();
    float const exact = 1.0f - 0.001f * 3.0f;
    expect(own == std::vector<float>(mine.count, exact), "weights in a shard are not rounded");
    expect(got == std::vector<float>(n, float{bfloat16(exact)}), "weights that have travelled are rounded once");
  });
}

TEST_CASE("a value that is not finite is NaN at all ranks, and others in its block are as accurate as before") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 16 << 10);
    std::vector<float> values(200, 2.0f);
    if (comm.rank() == 1) values[3] = std::numeric_limits<float>::infinity();
    device_array<sharing_stand_in, float> const data(device, values.size());
    device.copy({}, data.data(), values.data(), values.size() * sizeof(float));
    all_reduce(ranks, data, wire<block_scaled<float8_e4m3>>(sum{}));
    device.copy({}, values.data(), data.data(), values.size() * sizeof(float));
    ranks.work().wait();
    for (std::size_t i = 0; i < values.size(); ++i)
      expect(i == 3 ? std::isnan(values[i]) : values[i] == 4.0f, join({"element ", i}));
  });
}

TEST_CASE("ranks that share a device, a single rank, and the host's way send the data as they are") {
  auto const check = [](auto& ranks, auto const& device, auto stream) {
    float const third = 1.0f / 3;
    std::vector<float> values(100, third);
    device_array<sharing_stand_in, float> const data(device, values.size());
    device.copy(stream, data.data(), values.data(), values.size() * sizeof(float));
    all_reduce(ranks, data, wire<bfloat16>(tutti::max{}), {.stream = stream});
    device.copy(stream, values.data(), data.data(), values.size() * sizeof(float));
    device.wait(stream, deadline::after(std::chrono::seconds{60}));
    expect(values == std::vector<float>(100, third), "nothing was rounded");
  };
  for (int const p : {1, 2})
    run_threads(p, [&](auto& comm) {
      sharing_stand_in const device;
      cuda_ipc ranks(comm, device, 4096);
      check(ranks, device, sharing_stand_in::stream_type{});
      cuda_staged staged(comm, device);
      check(staged, device, sharing_stand_in::stream_type{});
    });
}

TEST_CASE("an arena without room for a block of each chunk is refused") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 512);
    device_array<sharing_stand_in, float> const data(device, 100);
    expect_error(error_of([&] {
                   all_reduce(ranks, data, wire<block_scaled<float8_e4m3>>(sum{}),
                              {.algorithm = algorithm_id::two_shot});
                 }),
                 error_code::bad_argument, "a block of 129 bytes does not fit its part of an arena of 512");
  });
}
