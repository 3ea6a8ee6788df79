// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that completes when a stream has reached a given place, and its continuations.
// labels: threads
#include "tutti/device/front/work.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <source_location>
#include <span>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// A stream that makes no progress until it is released.
struct held_stream {
  std::atomic<bool> free = false;
  stand_in_stream stream;

  held_stream() {
    stream.add([this] {
      while (!free) std::this_thread::yield();
    });
  }
  ~held_stream() { free = true; }
};

struct works {
  sharing_stand_in device;
  detail::device_works all;

  ~works() { all.close(std::chrono::seconds{10}); }
  work of(held_stream& held) {
    return all.add(std::make_shared<detail::device_work<sharing_stand_in>>(all, device, nullptr, &held.stream,
                                                                           std::source_location::current()));
  }
};

}  // namespace

TEST_CASE("who waits for what follows a work waits until that has run") {
  works some;
  held_stream held;
  int ran = 0;
  work next = some.of(held).then([&] { ++ran; }).then([&] { ++ran; });
  CHECK(!next.wait(std::chrono::milliseconds{1}));
  CHECK(ran == 0);
  held.free = true;
  next.wait();
  CHECK(next.done());
  CHECK(ran == 2);
}

TEST_CASE("one work does not wait for another") {
  works some;
  held_stream early, late;
  work first = some.of(early), second = some.of(late);
  early.free = true;
  first.wait();
  CHECK(first.done());
  CHECK(!second.done());
  late.free = true;
  second.wait();
}

TEST_CASE("who waits for anything in tutti runs what follows the work of a device") {
  run_threads(2, [](auto& comm) {
    std::atomic<bool> ran = false;  // outlives what sets it
    works some;
    held_stream held;
    work const next = some.of(held).then([&] { ran = true; });
    held.free = true;
    // Rank 1 starts when rank 0 has seen its continuation run, while it waited for this sum.
    int one = 1;
    if (comm.rank() == 0) {
      work sum = all_reduce(async(comm), std::span(&one, 1));
      while (!ran) static_cast<void>(sum.test());
      send(comm, std::span(&one, 1), 1);
      sum.wait();
    } else {
      recv(comm, std::span(&one, 1), 0);
      all_reduce(comm, std::span(&one, 1));
    }
  });
}

TEST_CASE("cuda_ipc does not end before what follows its works has run, and works outlive it") {
  work last;
  int ran = 0;
  run_threads(1, [&](auto& comm) {
    sharing_stand_in const device;
    held_stream held;
    cuda_ipc ranks(comm, device);
    last = ranks.work(&held.stream).then([&] { ++ran; });
    held.free = true;
  });
  CHECK(ran == 1);
  last.wait();
  CHECK(last.done());
}

TEST_CASE("virtual ranks have work that ends with their calls on a stream") {
  sharing_stand_in device;
  std::vector<std::vector<float>> data{{1, 2}, {3, 4}, {5, 6}};
  held_stream held;
  bool ran = false;
  {
    cuda_local ranks(device, 3);
    all_reduce(ranks, data, data, sum{}, {.stream = &held.stream});
    work done = ranks.work(&held.stream);
    CHECK(!done.test());
    CHECK(data[0][0] == 1);
    held.free = true;
    done.wait();
    for (auto const& one : data) CHECK(one == std::vector<float>{9, 12});
    static_cast<void>(ranks.work(&held.stream).then([&] { ran = true; }));
  }
  CHECK(ran);
}

TEST_CASE("a stream that is being captured has no work, and its graph gets nothing") {
  sharing_stand_in const device;
  stand_in_stream stream;
  std::vector<std::vector<float>> data{{1}, {2}};
  cuda_local const ranks(device, 2);
  stream.begin_capture();
  all_reduce(ranks, data, sum{}, {.stream = &stream});
  expect_error(error_of([&] { static_cast<void>(ranks.work(&stream)); }), error_code::bad_argument,
               "on a stream that is being captured into a graph");
  stand_in_stream::graph const graph = stream.end_capture();
  CHECK(graph.size() == 1);
  stand_in_stream::launch(graph);
  ranks.work(&stream).wait();
  CHECK(data == std::vector<std::vector<float>>{{3}, {3}});
}
