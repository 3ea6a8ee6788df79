// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prologues, epilogues and the arrays that these update, in collectives on device memory, with every class of ranks.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/device_queues.hpp"
#include "support/device_stand_in.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/staged/cuda_staged.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Prologues and epilogues around operations that have their own, and arrays that an epilogue updates, of which every
// rank has some: in large calls, or calls in parts.
template <device_ranks R, class Comm>
void check_stages_of(R& ranks, Comm& comm, std::size_t n, stream_of<typename R::device_type> stream = {}) {
  auto const& on = ranks.on();
  device_options_of<R> const how{.stream = stream};
  auto const p = static_cast<std::size_t>(ranks.size());
  auto const result_on_device = [&](std::vector<float> const& values) {
    device_array<typename R::device_type, float> out(on, values.size());
    on.copy(stream, out.data(), values.data(), values.size() * sizeof(float));
    on.wait(stream, deadline::after(std::chrono::seconds{60}));
    return out;
  };
  auto const expect_same = [&](std::string const& what, auto const& got, auto const& expected_of) {
    std::vector<float> values(got.size());
    on.copy(stream, values.data(), got.data(), values.size() * sizeof(float));
    on.wait(stream, deadline::after(std::chrono::seconds{60}));
    for (std::size_t i = 0; i < values.size(); ++i)
      expect(values[i] == expected_of(i),
             join({what, " of ", n, " on rank ", ranks.rank(), " of ", ranks.size(), " is wrong at element ", i}));
  };
  std::vector<float> in(p * n), doubled(p * n), result(n), weights(n), block(n);
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<float>(i % 50) + static_cast<float>(comm.rank());
    doubled[i] = 2 * in[i];
  }
  for (std::size_t i = 0; i < n; ++i) weights[i] = static_cast<float>(i % 1000);
  std::vector<float> const still(n), head(doubled.begin(), doubled.begin() + static_cast<std::ptrdiff_t>(n));
  auto const from = result_on_device(in), to = result_on_device(still);
  std::span const of_call(from.data(), n);

  all_reduce(comm, head, result, mean{});
  all_reduce(ranks, of_call, to, fused{mean{}, scale{2.0f}, scale{3.0f}}, how);
  expect_same("a mean with a prologue and an epilogue", to, [&](std::size_t i) { return 3 * result[i]; });
  reduce(ranks, of_call, to, fused{mean{}, scale{2.0f}, clip{0.0f, 30.0f}}, 0, how);
  if (ranks.rank() == 0) expect_same("a mean at a root", to, [&](std::size_t i) { return std::min(result[i], 30.0f); });

  auto const kept = result_on_device(weights), speed = result_on_device(still);
  fused const step{mean{}, scale{2.0f}, with_arrays(sgd_step{.rate = 0.5f}, kept.data(), speed.data())};
  all_reduce(ranks, of_call, to, step, how);
  auto const moved = [&](std::size_t i) { return weights[i] - 0.5f * result[i]; };
  expect_same("weights after a step", kept, moved);
  expect_same("velocity after a step", speed, [&](std::size_t i) { return result[i]; });
  expect_same("the result of a step", to, moved);

  auto const own_kept = result_on_device(weights), own_speed = result_on_device(still);
  reduce_scatter(comm, doubled, block, mean{});
  reduce_scatter(ranks, from, to,
                 fused{mean{}, scale{2.0f}, with_arrays(sgd_step{.rate = 0.5f}, own_kept.data(), own_speed.data())},
                 how);
  expect_same("a block's weights after a step", own_kept, [&](std::size_t i) { return weights[i] - 0.5f * block[i]; });

  // What is in memory when a call runs.
  device_array<typename R::device_type, scale<float>> const factor(on, 1);
  device_array<typename R::device_type, sgd_step> const rate(on, 1);
  fused const in_memory{mean{}, from_memory(factor.data()),
                        with_arrays(from_memory(rate.data()), kept.data(), speed.data())};
  device_array<typename R::device_type, float> const number(on, 1);
  fused const limited{mean{}, scale{2.0f}, clip{from_memory(number.data()), 30.0f}};
  fused const numbers_in_memory{mean{}, scale{from_memory(number.data())},
                                with_arrays(with_rate(sgd_step{.rate = 0}, number.data()), kept.data(), speed.data())};
  for (float const by : {2.0f, 4.0f}) {
    scale<float> const twice_or_more{by};
    sgd_step const step_now{.rate = by};
    on.copy(stream, factor.data(), &twice_or_more, sizeof twice_or_more);
    on.copy(stream, rate.data(), &step_now, sizeof step_now);
    on.copy(stream, kept.data(), weights.data(), n * sizeof(float));
    all_reduce(ranks, of_call, to, in_memory, how);
    auto const stepped = [&](std::size_t i) { return weights[i] - by * (by / 2 * result[i]); };
    expect_same("a step in memory", kept, stepped);
    on.copy(stream, number.data(), &by, sizeof by);
    on.copy(stream, kept.data(), weights.data(), n * sizeof(float));
    all_reduce(ranks, of_call, to, numbers_in_memory, how);
    expect_same("a step by numbers in memory", kept, stepped);
    all_reduce(ranks, of_call, to, limited, how);
    expect_same("a mean with a limit in memory", to, [&](std::size_t i) { return std::clamp(result[i], by, 30.0f); });
  }

  // Each rank has the part of the arrays that it owns, twice: what a step leaves is where the next finds it.
  extent const mine = shard_of(ranks, n);
  std::span const own_part = std::span(weights).subspan(mine.begin, mine.count);
  auto const shard = result_on_device(std::vector<float>(own_part.begin(), own_part.end()));
  auto const shard_speed = result_on_device(std::vector<float>(mine.count));
  fused const in_shards{mean{}, scale{2.0f}, with_shards(sgd_step{.rate = 0.5f}, shard.data(), shard_speed.data())};
  for (float const turns : {1.0f, 2.0f}) {
    auto const moved_so_far = [&](std::size_t i) { return weights[i] - turns * 0.5f * result[i]; };
    all_reduce(ranks, of_call, to, in_shards, how);
    expect_same("a shard of the weights", shard, [&](std::size_t i) { return moved_so_far(mine.begin + i); });
    expect_same("the result of all shards", to, moved_so_far);
  }

  all_reduce(comm, head, result, premultiplied_sum{0.3f});
  all_reduce(ranks, of_call, to, fused{premultiplied_sum{0.3f}, scale{2.0f}}, how);
  expect_same("a pre-multiplied sum with a prologue", to, [&](std::size_t i) { return result[i]; });

  if (ranks.size() == 1) return;
  expect_error(
      error_of([&] { all_reduce(ranks, of_call, to, step, {.stream = stream, .algorithm = algorithm_id::two_shot}); }),
      error_code::bad_argument, "two_shot cannot update the arrays of an epilogue");
  expect_error(error_of([&] {
                 all_reduce(ranks, of_call, to, in_shards, {.stream = stream, .algorithm = algorithm_id::one_shot});
               }),
               error_code::bad_argument, "one_shot cannot update arrays in shards");
}

}  // namespace

TEST_CASE("where ranks share memory, in parts and where two_shot would be chosen") {
  for (int const p : ranks_to_test({1, 2, 3, 4}))
    run_threads(p, [](auto& comm) {
      sharing_stand_in const device;
      cuda_ipc ranks(comm, device, 1024);
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{2000}}) check_stages_of(ranks, comm, n);
    });
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 64 << 10);
    check_stages_of(ranks, comm, sanitized ? 40'000 : 100'000);
  });
}

TEST_CASE("where ranks have a device each") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 4096);
    for (std::size_t const n : {std::size_t{1}, std::size_t{700}}) check_stages_of(ranks, comm, n);
  });
}

TEST_CASE("by way of the host, in slices") {
  for (int const p : ranks_to_test({1, 2, 3, 4}))
    run_threads(p, [p](auto& comm) {
      device_queues const device(static_cast<unsigned>(97 * p + comm.rank()));
      cuda_staged ranks(comm, device, {.slice = 1024});
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}})
        check_stages_of(ranks, comm, n, device.make_stream());
    });
}

TEST_CASE("virtual ranks keep what the operation prepares and finishes") {
  device_stand_in const device;
  cuda_local const ranks(device, 3);
  std::vector<std::vector<float>> in(3), out(3, std::vector<float>(100));
  for (std::size_t r = 0; r < 3; ++r) in[r] = std::vector<float>(100, 3 * static_cast<float>(r));
  all_reduce(ranks, in, out, fused{mean{}, unchanged{}, scale{2.0f}});
  CHECK(out == std::vector(3, std::vector<float>(100, 6)));
  all_reduce(ranks, in, out, fused{premultiplied_sum{0.5f}, scale{2.0f}});
  CHECK(out == std::vector(3, std::vector<float>(100, 9)));
  std::vector<std::vector<float>> blocks(3, std::vector<float>(100)), all(3, std::vector<float>(300, 6));
  reduce_scatter(ranks, all, blocks, fused{mean{}, scale{0.5f}});
  CHECK(blocks == std::vector(3, std::vector<float>(100, 3)));
  // A prologue that uses the index of its source.
  all_reduce(ranks, in, out, fused{premultiplied_sum{2.0f}, [](int k, float x) { return k == 1 ? x : 0; }});
  CHECK(out == std::vector(3, std::vector<float>(100, 6)));
}
