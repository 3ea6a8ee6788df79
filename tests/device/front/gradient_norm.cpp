// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Norms of gradients among ranks with stand-in devices. Ranks are threads.
// labels: threads
#include "tutti/device/front/gradient_norm.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/device_norm.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE_TEMPLATE("gradients have one norm at all ranks, and are clipped by it", T, float, bfloat16) {
  for (device_path const path : {device_path::ipc, device_path::staged}) {
    CAPTURE(std::string(name(path)));
    run_threads(3, [=](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      auto ranks = on(comm, device, {.path = path, .arena = 4096});
      std::vector<std::size_t> const lengths{100, 0, 17000, 1, 16384};
      check_norm<T>(ranks, comm, lengths, 2.0f, gradients::in_shards, {});
      check_norm<T>(ranks, comm, lengths, 1e6f, gradients::in_shards, {});
      check_norm<T>(ranks, comm, lengths, 2.0f, gradients::equal, {});
      check_norm<T>(ranks, comm, std::vector<std::size_t>(130, 5), 2.0f, gradients::in_shards, {});
      check_norm<T>(ranks, comm, {}, 2.0f, gradients::in_shards, {});
      std::vector<std::size_t> mostly_empty(136);
      mostly_empty[64] = 5, mostly_empty[135] = 7;
      check_norm<T>(ranks, comm, mostly_empty, 2.0f, gradients::in_shards, {});
      check_norm<T>(ranks, comm, lengths, 2.0f, gradients::in_shards,
                    {.algorithm = algorithm_id::two_shot, .protocol = protocol::staged, .symmetric = true});
    });
  }
}

TEST_CASE("a gradient that is not finite has a norm that is not") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    auto ranks = on(comm, device);
    gradient_norm norm(ranks, 10);
    std::vector<float> const bad{1, std::numeric_limits<float>::quiet_NaN()}, good{1, 2};
    detail::device_array<sharing_stand_in, float> const data(device, 2);
    device.copy({}, data.data(), (comm.rank() == 0 ? bad : good).data(), 2 * sizeof(float));
    norm.measure(std::vector{std::span<float const>(data.data(), 2)}, 1.0f);
    float got[2];
    device.copy({}, got, norm.norm(), sizeof got);
    device.wait({}, detail::deadline::after(std::chrono::seconds(20)));
    expect(std::isnan(got[0]) && std::isnan(got[1]), "a norm hides NaN");
  });
}

TEST_CASE("a gradient_norm is made for some number of elements") {
  run_threads(1, [](auto& comm) {
    sharing_stand_in const device;
    auto ranks = on(comm, device);
    gradient_norm norm(ranks, 10);
    detail::device_array<sharing_stand_in, float> const data(device, 40000);
    error const e = error_of([&] {
      norm.measure(std::vector{std::span<float const>(data.data(), data.size())}, 1.0f);
      return 0;
    });
    expect(e.code() == error_code::bad_argument, "too many elements are accepted");
  });
}

TEST_CASE("gradients that the device cannot access are refused") {
  run_threads(1, [](auto& comm) {
    sharing_stand_in device;
    auto ranks = on(comm, device);
    gradient_norm norm(ranks, 10);
    detail::device_array<sharing_stand_in, float> const data(device, 10);
    std::vector const list{std::span<float>(data.data(), data.size())};
    device.forbidden = data.data();
    expect_error(error_of([&] { norm.measure(list, 1.0f); }), error_code::bad_argument,
                 "the input of gradient_norm::measure cannot be accessed");
    expect_error(error_of([&] { norm.clip(list); }), error_code::bad_argument,
                 "the input of gradient_norm::clip cannot be accessed");
  });
}
