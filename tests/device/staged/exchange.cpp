// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of device memory that fail while they are in flight, and ranks that are destroyed, or allocate, meanwhile.
// labels: threads
// timeout: 300
#include "tutti/device/staged/exchange.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

using large_array = device_array<sharing_stand_in, float>;

constexpr std::size_t message_length = 20'000;  // more than a message that goes by way of the host
constexpr on_options<sharing_stand_in> small_slices{.arena = 4096, .slices = {.slice = 2048}};

// A stream whose later work waits until it is opened.
class gated_stream {
 public:
  gated_stream() {
    stream_.add([gate = open_] {
      while (!*gate) std::this_thread::sleep_for(1ms);
    });
  }
  ~gated_stream() { open(); }

  stand_in_stream* get() { return &stream_; }
  void open() { *open_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  stand_in_stream stream_;
};

void write_floats(sharing_stand_in const& on, float* to, std::vector<float> const& values) {
  on.copy({}, to, values.data(), values.size() * sizeof(float));
  on.wait({}, deadline::after(60s));
}
std::vector<float> read_floats(sharing_stand_in const& on, float const* from, std::size_t n) {
  std::vector<float> out(n);
  on.copy({}, out.data(), from, n * sizeof(float));
  on.wait({}, deadline::after(60s));
  return out;
}

}  // namespace

TEST_CASE("a device that fails in the middle of a message ends it at both ranks") {
  for (int const broken : {0, 1}) {
    auto const errors = errors_of(2, [&](auto& comm) {
      sharing_stand_in device(comm.rank());
      large_array const data(device, message_length);
      auto ranks = on(comm, device, small_slices);
      barrier(comm);
      device.refuses.copying = comm.rank() == broken;
      if (comm.rank() == 0) send(ranks, data, 1, 0, {.timeout = 5s});
      else recv(ranks, data, 0, 0, {.timeout = 5s});
    });
    auto const of_broken = static_cast<std::size_t>(broken);
    CHECK(errors[of_broken].code() == error_code::system);
    CHECK(contains(errors[of_broken], "the stand-in refuses to copy"));
    expect_error(errors[1 - of_broken], error_code::rank_left,
                 broken == 0 ? "rank 0 gave up its messages" : "rank 1 gave up its messages");
  }
}

TEST_CASE("a fault ends a message whose copy waits for its stream") {
  auto const errors = errors_of(2, [&](auto& comm) {
    sharing_stand_in const device(comm.rank());
    large_array const data(device, message_length);
    gated_stream late;
    auto ranks = on(comm, device, small_slices);
    try {
      if (comm.rank() == 0) send(ranks, data, 1, 7, {.timeout = 300ms});
      else recv(ranks, data, 0, 7, {.stream = late.get(), .timeout = 5s});
    } catch (...) {
      late.open();
      throw;
    }
  });
  for (error const& e : errors) expect_error(e, error_code::timeout, "on rank 0 did not complete within 0.3 s");
}

TEST_CASE("messages that are in flight when their ranks are destroyed are completed first") {
  for (device_path const path : {device_path::staged, device_path::ipc})
    run_threads(2, [&](auto& comm) {
      sharing_stand_in const device(comm.rank());
      large_array const out(device, message_length);
      gated_stream late;
      std::thread opens;
      {
        on_options<sharing_stand_in> how = small_slices;
        how.path = path;
        auto ranks = on(comm, device, how);
        std::span<float> const data = ranks.template allocate<float>(message_length);
        write_floats(device, data.data(), std::vector<float>(message_length, 2.5f));
        device_batch both(ranks);
        both.send(data, 1 - comm.rank()).recv(out, 1 - comm.rank());
        static_cast<void>(both.start({.stream = late.get()}));
        opens = std::thread([&] {
          std::this_thread::sleep_for(50ms);
          late.open();
        });
      }
      opens.join();
      expect(read_floats(device, out.data(), message_length) == std::vector<float>(message_length, 2.5f),
             "the message");
    });
}

TEST_CASE("a message comes from memory that its receiver is still learning of") {
  run_threads(4, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    large_array const out(device, message_length);
    auto ranks = on(comm, device, small_slices);
    int const p = comm.size(), right = (comm.rank() + 1) % p, left = (comm.rank() + p - 1) % p;
    device_batch from_left(ranks);
    from_left.recv(out, left);
    for (int i = 0; i < 30; ++i) {
      work taken = from_left.start();
      std::span<float> const data = ranks.template allocate<float>(message_length);
      send(ranks, data, right);
      taken.wait();
    }
  });
}
