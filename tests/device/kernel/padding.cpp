// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels handle elements by packs, units and blocks, of which the last can be longer than the message. Functions of the program, which
// may not be defined for all values, see no other values than those of ranks.
// labels: threads
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "support/device_collectives.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Counts zeros, of which ranks pass none. Their sum would be the largest value of all.
struct sum_without_zeros {
  std::atomic<int>* zeros;

  float operator()(float a, float b) const {
    if (a == 0 || b == 0) ++*zeros;
    return a == 0 || b == 0 ? 1e6f : a + b;
  }
};
struct triple {
  float of[3];
};
struct triple_sum {
  sum_without_zeros each;

  triple operator()(triple const& a, triple const& b) const {
    return {{each(a.of[0], b.of[0]), each(a.of[1], b.of[1]), each(a.of[2], b.of[2])}};
  }
};

// Doubles elements, without zeros.
struct doubling {
  std::atomic<int>* zeros;

  using total = float;
  float of(float x) const {
    if (x == 0) ++*zeros;
    return 0;
  }
  float combine(float, float) const { return 0; }
  float row(float, std::size_t) const { return 0; }
  float finish(float x, float, float column) const {
    if (x == 0 || column == 0) ++*zeros;
    return x * column;
  }
};

template <class Wire>
void check_wire_padding(std::size_t n, algorithm_id by) {
  std::atomic<int> zeros{0};
  run_threads(3, [&](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 16 << 10);
    std::vector<float> values(n, 2);
    device_array<sharing_stand_in, float> const data(device, n);
    device.copy({}, data.data(), values.data(), n * sizeof(float));
    all_reduce(ranks, data, wire<Wire>(fused{sum_without_zeros{&zeros}, scale{0.5f}, scale{0x1p-14f}}),
               {.algorithm = by});
    device.copy({}, values.data(), data.data(), n * sizeof(float));
    ranks.work().wait();
    expect(values == std::vector<float>(n, 3 * 0x1p-14f), join({name(by), " of ", n, " elements is wrong"}));
  });
  CHECK(zeros == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("blocks of a wire type", Wire, bfloat16, block_scaled<float8_e4m3>, block_scaled<float8_e5m2, 256>) {
  for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot})
    for (std::size_t const n : {std::size_t{1}, std::size_t{300}, std::size_t{384}, std::size_t{701}})
      check_wire_padding<Wire>(n, by);
}

TEST_CASE("packets of elements that do not fill words") {
  device_stand_in const on;
  device_channels channels(on, 3);
  for (std::size_t const n : {1u, 2u, 7u}) {
    CAPTURE(n);
    std::atomic<int> zeros{0};
    auto const in = to_device(on, ranks_values<triple>(3, std::vector<triple>(n, {{1, 2, 3}})));
    all_reduce<one_shot>(cuda_local(channels), in, in, triple_sum{{&zeros}}, {.protocol = protocol::packet});
    CHECK(zeros == 0);
    int wrong = 0;
    for (auto const& x : to_host(on, in))
      for (triple const& t : x) wrong += t.of[0] != 3 || t.of[1] != 6 || t.of[2] != 9;
    CHECK(wrong == 0);
  }
}

TEST_CASE("rows that do not fill packs") {
  device_stand_in const on;
  for (std::size_t const length : {1u, 13u}) {
    CAPTURE(length);
    std::atomic<int> zeros{0};
    auto const data = to_device(on, ranks_values<float>(2, std::vector<float>(3 * length, 1)));
    auto const columns = to_device(on, ranks_values<float>(1, std::vector<float>(length, 2)));
    all_reduce(cuda_local(on, 2), data,
               by_rows(sum_without_zeros{&zeros}, length, with_columns(doubling{&zeros}, columns[0].data())));
    CHECK(zeros == 0);
    for (auto const& x : to_host(on, data)) CHECK(x == std::vector<float>(3 * length, 4));
  }
}
