// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of floating-point numbers that round at every step: the same bits on every rank and in every run.
// labels: threads computes
// timeout: 200
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/sanitized.hpp"
#include "support/types_and_ops.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

constexpr int repeats = testing::sanitized ? 10 : 100;

// Numbers between 1/256 and 256 with random mantissas: their sum depends on the order of combination.
template <class T>
std::vector<T> rounding_values(int rank, std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t const x = testing::scramble(static_cast<std::uint64_t>(rank), i);
    float const mantissa = 1.0f + static_cast<float>(x >> 40) / static_cast<float>(1 << 24);
    out[i] = static_cast<T>(std::ldexp(mantissa, static_cast<int>(x % 17) - 8));
  }
  return out;
}

std::uint64_t hash_of(void const* data, std::size_t bytes) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < bytes; ++i) hash = mix(hash, static_cast<unsigned char const*>(data)[i]);
  return hash;
}

template <class T, class Comm, class Op>
void check_bits(Comm& comm, Op const& op) {
  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule const& s) {
    if (c != collective::all_reduce) return;
    for (std::size_t const count : {5u, 700u, 9000u}) {
      auto const in = rounding_values<T>(comm.rank(), count);
      std::vector<T> first(count);
      for (int repeat = 0; repeat < repeats; ++repeat) {
        protocol const how = repeat % 2 == 0 ? protocol::staged : s.direct ? protocol::direct : protocol::automatic;
        std::vector<T> out(count);
        all_reduce(comm, in, out, op, {.algorithm = id, .protocol = how});
        if (repeat == 0) first = out;
        if (std::memcmp(out.data(), first.data(), count * sizeof(T)) != 0)
          throw std::runtime_error(std::string(name(id)) + " gave other bits in repeat " + std::to_string(repeat));
      }
      std::uint64_t const hash = hash_of(first.data(), count * sizeof(T));
      std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
      all_gather(comm, std::span(&hash, 1), all);
      for (std::uint64_t const other : all)
        if (other != hash) throw std::runtime_error(std::string(name(id)) + " gave ranks different bits");
    }
  });
}

}  // namespace

TEST_CASE("a sum has the same bits on every rank and in every repeat, by every algorithm") {
  for (int const ranks : testing::ranks_to_test({2, 3, 5, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) {
      check_bits<float>(comm, sum{});
      check_bits<bfloat16>(comm, mean{});
      check_bits<bfloat16>(comm, premultiplied_sum{0.3f});
    }));
  }
}

TEST_CASE("packets and eager messages give the bits of the schedule that they implement") {
  CHECK_NOTHROW(run_threads(5, [](auto& comm) {
    auto const in = rounding_values<bfloat16>(comm.rank(), 900);
    std::vector<bfloat16> packets(900), eager(900), slices(900);
    premultiplied_sum const op{0.7f};
    all_reduce(comm, in, packets, op, {.algorithm = algorithm_id::one_shot, .protocol = protocol::packet});
    all_reduce(comm, in, eager, op, {.algorithm = algorithm_id::one_shot, .protocol = protocol::staged});
    // Threads refer to all memory, so the schedule is walked through.
    all_reduce(comm, in, slices, op, {.algorithm = algorithm_id::one_shot, .protocol = protocol::direct});
    for (auto const& short_path : {packets, eager})
      if (std::memcmp(short_path.data(), slices.data(), 900 * sizeof(bfloat16)) != 0)
        throw std::runtime_error("they differ");
  }));
}

TEST_CASE("these sums do depend on the order, or the test above would prove nothing") {
  auto const a = rounding_values<float>(0, 700), b = rounding_values<float>(1, 700), c = rounding_values<float>(2, 700);
  int different = 0;
  for (std::size_t i = 0; i < 700; ++i) different += (a[i] + b[i]) + c[i] != a[i] + (b[i] + c[i]);
  CHECK(different > 100);
}
