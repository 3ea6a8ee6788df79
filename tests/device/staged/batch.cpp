// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of device memory that start together, in any order, whatever their length. Not under ThreadSanitizer, which does not
// see how libstdc++ counts references to an exception: it reports a race where one thread has read an error and another,
// which helped it, drops the last reference.
#include "tutti/device/staged/batch.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

using halo = device_array<sharing_stand_in, float>;

template <class F>
void with_messages(int p, F const& f) {
  for (device_path const path : {device_path::staged, device_path::ipc})
    run_threads(p, [&](auto& comm) {
      sharing_stand_in const device(comm.rank());
      auto ranks = on(comm, device, {.path = path, .arena = 4096, .slices = {.slice = 2048}});
      f(ranks, comm, device);
    });
}
halo halo_of(sharing_stand_in const& on, std::vector<float> const& values) {
  halo out(on, values.size());
  on.copy({}, out.data(), values.data(), values.size() * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds{10}));
  return out;
}
std::vector<float> floats_of(sharing_stand_in const& on, halo const& from) {
  std::vector<float> out(from.size());
  on.copy({}, out.data(), from.data(), out.size() * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds{10}));
  return out;
}

}  // namespace

TEST_CASE("messages of a batch cannot make ranks wait for each other") {
  for (std::size_t const n :
       {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{5000}, std::size_t{5120}})
    with_messages(4, [n](auto& ranks, auto& comm, auto const& device) {
      std::vector<halo> sent, taken;
      for (int q = 0; q < 4; ++q) {
        sent.push_back(halo_of(device, uneven_values<float>(10 * comm.rank() + q, n)));
        taken.emplace_back(device, n);
      }
      device_batch all(ranks);
      // The order is that of a deadlock, if each message waited for the one before it.
      for (int q = 0; q < 4; ++q) all.send(sent[static_cast<std::size_t>(q)], q, 3);
      for (int q = 3; q >= 0; --q) all.recv(taken[static_cast<std::size_t>(q)], q, 3);
      for (int round = 0; round < 3; ++round) {
        std::vector<received> const got = round == 1 ? all.start().get() : all.run();
        for (int q = 0; q < 4; ++q) {
          expect(got[static_cast<std::size_t>(3 - q)] == received{q, 3, n}, "who sent what");
          expect(floats_of(device, taken[static_cast<std::size_t>(q)]) == uneven_values<float>(10 * q + comm.rank(), n),
                 "the message");
        }
      }
    });
}

TEST_CASE("messages between two ranks with one tag keep their order, also beside single ones") {
  with_messages(2, [](auto& ranks, auto& comm, auto const& device) {
    std::vector<std::size_t> const sizes{3000, 1, 512, 2000, 0, 1500};
    std::vector<halo> data;
    for (std::size_t const n : sizes)
      data.push_back(comm.rank() == 0 ? halo_of(device, uneven_values<float>(static_cast<int>(n), n))
                                      : halo(device, n));
    device_batch first(ranks), second(ranks);
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      auto& part = i < 2 ? first : second;
      if (comm.rank() == 0) part.send(data[i], 1);
      else part.recv(data[i], 0);
    }
    work one = first.start(), other = second.start();
    if (comm.rank() == 0) send(ranks, data.back(), 1);
    else expect(recv(ranks, data.back(), any_source, any_tag).count == sizes.back(), "the last one");
    other.wait();
    one.wait();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      expect(floats_of(device, data[i]) == uneven_values<float>(static_cast<int>(sizes[i]), sizes[i]), "in order");
    // One side takes one message after the other.
    for (int const batched : {0, 1}) {
      device_batch all(ranks);
      for (halo const& message : data)
        if (comm.rank() == batched && comm.rank() == 0) all.send(message, 1);
        else if (comm.rank() == batched) all.recv(message, 0);
        else if (comm.rank() == 0) send(ranks, message, 1);
        else recv(ranks, message, 0);
      all.run();
      for (std::size_t i = 0; i < sizes.size(); ++i)
        expect(floats_of(device, data[i]) == uneven_values<float>(static_cast<int>(sizes[i]), sizes[i]),
               "as they were");
    }
  });
}

TEST_CASE("a batch progresses while its rank waits for something else, and calls its continuation") {
  with_messages(2, [](auto& ranks, auto& comm, auto const& device) {
    std::size_t const n = 4000;
    int const other = 1 - comm.rank();
    halo const mine = halo_of(device, uneven_values<float>(comm.rank(), n)), theirs(device, n);
    device_batch both(ranks);
    both.send(mine, other).recv(theirs, other);
    std::atomic<bool> ran = false;
    work done = both.start().then([&] {
      ran = true;
      static_cast<void>(ranks.work());  // may start work
    });
    barrier(comm);
    for (int i = 0; !ran && i < 100000; ++i) ranks.work().wait();
    expect(ran, "it ended while works were waited for");
    done.wait();
    expect(floats_of(device, theirs) == uneven_values<float>(other, n), "the message");
  });
}

TEST_CASE("messages in flight are held back while their stream is captured, and their copies are in no graph") {
  with_messages(2, [](auto& ranks, auto& comm, auto const& device) {
    std::size_t const n = 4000;
    int const other = 1 - comm.rank();
    halo const mine = halo_of(device, uneven_values<float>(comm.rank(), n)), theirs(device, n);
    stand_in_stream stream;
    device_batch both(ranks);
    both.send(mine, other).recv(theirs, other);
    work done = both.start({.stream = &stream});
    stream.begin_capture();
    for (int i = 0; i < 1000; ++i) {
      done.advance();
      std::this_thread::yield();
    }
    stand_in_stream::graph const captured = stream.end_capture();
    expect(captured.empty(), "the graph has nothing of the messages");
    done.wait();
    expect(floats_of(device, theirs) == uneven_values<float>(other, n), "the message");
  });
}

TEST_CASE("waiting in a capture for messages of its stream ends with a sentence") {
  auto const errors = errors_of(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto ranks = on(comm, device, {.arena = 4096, .slices = {.slice = 2048}});
    halo const data(device, 4000);
    stand_in_stream stream;
    device_batch one(ranks);
    if (comm.rank() == 0) one.recv(data, 1);
    else one.send(data, 0);
    work done = one.start({.stream = &stream, .timeout = std::chrono::milliseconds{200}});
    stream.begin_capture();
    try {
      done.wait();
    } catch (...) {
      static_cast<void>(stream.end_capture());
      throw;
    }
  });
  for (error const& e : errors)
    expect_error(e, error_code::timeout, "were held back for 0.2 s, because their stream is being captured");
}

TEST_CASE("a batch refuses what it cannot serve") {
  with_messages(2, [](auto& ranks, auto& comm, auto const& device) {
    halo const data = halo_of(device, {1, 2, 3});
    device_batch all(ranks);
    expect_error(error_of([&] { all.recv(data, any_source); }), error_code::bad_argument,
                 "a receive in a device_batch names any_source or any_tag");
    expect_error(error_of([&] { all.recv(data, 0, any_tag); }), error_code::bad_argument,
                 "names any_source or any_tag");
    expect_error(error_of([&] { all.send(data, 7); }), error_code::bad_argument, "device_batch::send names rank 7");
    all.send(data, no_rank).recv(data, no_rank);
    expect(all.run() == std::vector<received>{{no_rank, any_tag, 0}}, "no_rank does nothing");
    device_batch late(ranks);
    late.recv(data, 1 - comm.rank());
    auto done = late.start();
    expect_error(error_of([&] { static_cast<void>(late.start()); }), error_code::bad_argument, "started again before");
    send(ranks, data, 1 - comm.rank());
    done.wait();
  });
}

TEST_CASE("a batch whose partner does not come ends with an error at all ranks") {
  with_messages(2, [](auto& ranks, auto& comm, auto const& device) {
    halo const data = halo_of(device, std::vector<float>(2000));
    error const e = error_of([&] {
      device_batch all(ranks);
      all.recv(data, 1 - comm.rank(), 4);
      if (comm.rank() == 0) all.run({.timeout = std::chrono::milliseconds{200}});
      barrier(comm);
    });
    expect_error(e, error_code::timeout, "recv of up to 2000 float from rank 1, tag 4");
  });
}
