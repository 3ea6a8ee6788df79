// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory by the path that `on` finds, here among threads; streams run on the CPU on their own.
// labels: threads alike
// timeout: 300
#include "tutti/device/on/cuda_ranks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

using array = device_array<sharing_stand_in, float>;
using setup = on_options<sharing_stand_in>;

constexpr setup small{.arena = 4096, .slices = {.slice = 2048}};

// What the device of a rank is like, and which path the ranks then take.
struct kind_of_device {
  char const* name;
  stand_in_refusals refuses;
  bool own;  // one for each rank
  device_path path;
};
constexpr kind_of_device kinds[] = {
    {"one device for all", {}, false, device_path::ipc},
    {"a device for each rank", {}, true, device_path::ipc},
    {"devices that do not share their memory", {.sharing = true}, true, device_path::staged},
    {"devices that do not open the memory of others", {.opening = true}, true, device_path::staged},
};

// f(ranks, comm) on each of p ranks. Only the last one's device refuses something.
template <class F>
void on_ranks_of(int p, kind_of_device const& kind, F const& f) {
  CAPTURE(std::string(kind.name));
  CAPTURE(p);
  run_threads(p, [&](auto& comm) {
    sharing_stand_in device(kind.own ? comm.rank() : 0);
    if (comm.rank() == p - 1) device.refuses = kind.refuses;
    auto ranks = on(comm, device, small);
    f(ranks, comm);
  });
}

array ones(sharing_stand_in const& on, std::size_t count) {
  array out(on, count);
  std::vector<float> const values(count, 1.0f);
  on.copy({}, out.data(), values.data(), count * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds{10}));
  return out;
}
std::vector<float> values_of(sharing_stand_in const& on, float const* data, std::size_t count) {
  std::vector<float> out(count);
  on.copy({}, out.data(), data, count * sizeof(float));
  on.wait({}, deadline::after(std::chrono::seconds{10}));
  return out;
}

// As cuda::stream_ref.
struct stream_reference {
  stand_in_stream* to;

  stand_in_stream* get() const { return to; }
};

}  // namespace

TEST_CASE("collectives have the bits of the host on every path") {
  for (kind_of_device const& kind : kinds)
    for (int const p : ranks_to_test({2, 3, 5}))
      on_ranks_of(p, kind, [&](auto& ranks, auto& comm) {
        expect(ranks.path() == kind.path, std::string("the path with ") + kind.name);
        for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
          check_reductions_of<float>(ranks, comm, n, sum{});
          check_movement_of<summary>(ranks, comm, n);
        }
        if constexpr (!sanitized) check_reductions_of<affine>(ranks, comm, 700, compose{});
      });
}

TEST_CASE("one rank needs no path") {
  on_ranks_of(1, kinds[2], [](auto& ranks, auto& comm) {
    check_reductions_of<float>(ranks, comm, 100, sum{});
    check_movement_of<summary>(ranks, comm, 100);
  });
}

TEST_CASE("calls and works that name no stream use that of the ranks") {
  for (device_path const path : {device_path::ipc, device_path::staged})
    run_threads(2, [&](auto& comm) {
      sharing_stand_in const device(comm.rank());
      stand_in_stream stream, other;
      auto ranks = on(comm, device, {.stream = &stream, .path = path});
      array const data = ones(device, 1000);
      auto const before = stream.how_far()->given.load();
      all_reduce(ranks, data);
      expect(stream.how_far()->given > before, "the stream was given the call");
      expect(other.how_far()->given == 0, "and no other");
      ranks.work().wait();
      expect(values_of(device, data.data(), 1000) == std::vector<float>(1000, 2), "its work waits for the stream");
      all_reduce(ranks, data, sum{}, {.stream = stream_reference{&other}});
      expect(other.how_far()->given > 0, "a call may name another");
      ranks.work(stream_reference{&other}).wait();
      expect(values_of(device, data.data(), 1000) == std::vector<float>(1000, 4), "and a work too");
    });
}

TEST_CASE("options may follow the arrays, for the root 0, and {} stands for what only the root uses") {
  using namespace std::chrono_literals;
  for (kind_of_device const& kind : kinds)
    on_ranks_of(3, kind, [](auto& ranks, auto& comm) {
      sharing_stand_in const& device = ranks.on();
      std::size_t const n = 10;
      std::vector<std::size_t> const counts(3, n);
      array const one = ones(device, n), all = ones(device, 3 * n), sums = ones(device, n);
      reduce(ranks, one, sums, sum{}, {.timeout = 60s});
      broadcast(ranks, sums, {.timeout = 60s});
      reduce(ranks, sums, tutti::max{}, {.timeout = 60s});
      gather(ranks, sums, all, {.timeout = 60s});
      scatter(ranks, all, one, {.timeout = 60s});
      gather_v(ranks, one, all, counts, {}, {.timeout = 60s});
      scatter_v(ranks, all, counts, sums, {}, {.timeout = 60s});
      ranks.work().wait();
      expect(values_of(device, one.data(), n) == std::vector<float>(n, 3), "the sum of ones, scattered");
      expect(values_of(device, sums.data(), n) == std::vector<float>(n, 3), "and once more");
      if (comm.rank() == 1) {
        reduce(ranks, one, sums, sum{}, 1);
        gather(ranks, sums, all, 1);
        scatter(ranks, all, one, 1);
        gather_v(ranks, one, all, counts, {}, 1);
        scatter_v(ranks, all, counts, one, {}, 1);
      } else {
        reduce(ranks, one, {}, sum{}, 1);
        gather(ranks, sums, {}, 1);
        scatter(ranks, {}, one, 1);
        gather_v(ranks, one, {}, {}, {}, 1);
        scatter_v(ranks, {}, {}, one, {}, 1);
      }
      ranks.work().wait();
      float const expected[] = {3, 9, 3};
      expect(values_of(device, one.data(), n) == std::vector<float>(n, expected[comm.rank()]),
             "what each has gathered");
    });
}

TEST_CASE("memory that the ranks allocate takes part in calls on every path") {
  for (kind_of_device const& kind : kinds)
    on_ranks_of(3, kind, [](auto& ranks, auto&) {
      std::span<float> const in = ranks.template allocate<float>(500), out = ranks.template allocate<float>(500);
      std::vector<float> const values(500, 1.0f);
      ranks.on().copy({}, in.data(), values.data(), 500 * sizeof(float));
      all_reduce(ranks, in, out, sum{}, {.symmetric = true});
      ranks.work().wait();
      expect(values_of(ranks.on(), out.data(), 500) == std::vector<float>(500, 3), "the sum of ones");
      // Its bytes are few, modulo 2^64.
      expect_error(error_of([&] { static_cast<void>(ranks.template allocate<float>((std::size_t{1} << 62) + 1)); }),
                   error_code::bad_argument, "the array of allocate has 4611686018427387905 elements");
    });
}

TEST_CASE("messages of any length go from device to device") {
  for (kind_of_device const& kind : {kinds[1], kinds[2]})
    on_ranks_of(3, kind, [](auto& ranks, auto& comm) {
      int const right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
      std::size_t const slice = small.slices.slice / sizeof(float);
      for (std::size_t const n :
           {std::size_t{0}, std::size_t{1}, slice - 1, slice, slice + 1, 2 * slice, 7 * slice + 5}) {
        std::vector<float> const mine = uneven_values<float>(comm.rank(), n), theirs = uneven_values<float>(left, n);
        std::vector<float> const before = uneven_values<float>(77, n + 9);
        std::vector<float> expected = before;
        std::copy(theirs.begin(), theirs.end(), expected.begin());
        array const in(ranks.on(), n), out(ranks.on(), n + 9);
        auto const fill = [&] {
          ranks.on().copy({}, in.data(), mine.data(), n * sizeof(float));
          ranks.on().copy({}, out.data(), before.data(), (n + 9) * sizeof(float));
          ranks.on().wait({}, deadline::after(std::chrono::seconds{10}));
        };
        auto const check = [&](received const& got) {
          expect(got == received{left, 5, n}, "who sent what");
          expect(values_of(ranks.on(), out.data(), n + 9) == expected, "the message, and nothing behind it");
        };
        fill();
        check(send_recv(ranks, in, right, out, left, 5));
        fill();
        if (comm.rank() == 0) send(ranks, in, right, 5);
        received const got = recv(ranks, out, any_source, any_tag);
        if (comm.rank() != 0) send(ranks, in, right, 5);
        check(got);
      }
      array const few = ones(ranks.on(), 3);
      send(ranks, few, no_rank);
      expect(recv(ranks, few, no_rank).source == no_rank, "no_rank sends nothing");
      expect_error(error_of([&] { send(ranks, few, 3); }), error_code::bad_argument, "send names rank 3");
      expect_error(error_of([&] { send_recv(ranks, few, right, few, left); }), error_code::bad_argument, "overlap");
      expect_error(error_of([&] { send(ranks, few, right, 0, {.protocol = protocol::packet}); }),
                   error_code::bad_argument, "send takes no algorithm or protocol");
      barrier(ranks);
    });
}

TEST_CASE("a message that is longer than its buffer is refused") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto ranks = on(comm, device, small);
    array const data = ones(device, 2000);
    error const e = error_of([&] {
      if (comm.rank() == 0) send(ranks, data, 1);
      else recv(ranks, std::span(data.data(), 1500), 0);
      barrier(comm);
    });
    expect(e.code() != error_code::timeout, e.what());
  });
}

TEST_CASE("an algorithm that sends messages between devices needs the path ipc") {
  on_ranks_of(3, kinds[1], [](auto& ranks, auto& comm) { check_named<ring, float>(ranks, comm, 1000, sum{}); });
  on_ranks_of(3, kinds[2], [](auto& ranks, auto& comm) {
    check_named<one_shot, float>(ranks, comm, 1000, sum{});
    array const data = ones(ranks.on(), 100);
    error const e = error_of([&] { all_reduce<ring>(ranks, data); });
    expect_error(e, error_code::bad_argument,
                 "ring does not serve all_reduce where data travel by way of the host, as they do here, because rank 2 "
                 "cannot share its device: the stand-in refuses to share memory");
    all_reduce<two_shot>(ranks, data);
    expect(values_of(ranks.on(), data.data(), 100) == std::vector<float>(100, 3), "two_shot does");
    barrier(ranks);
  });
}

TEST_CASE("it tells how data travel, and why") {
  on_ranks_of(2, kinds[0], [](auto& ranks, auto&) {
    expect(ranks.explain().find("ranks read each other's memory") != std::string::npos, ranks.explain());
  });
  on_ranks_of(2, kinds[3], [](auto& ranks, auto&) {
    expect(ranks.explain().find("data travel through pinned host memory, because rank 1 cannot share its device: the "
                                "stand-in refuses to open memory of another process") != std::string::npos,
           ranks.explain());
  });
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    auto const ranks = on(comm, device, {.path = device_path::staged});
    expect(ranks.explain().find("because the program asked for it") != std::string::npos, ranks.explain());
  });
}

TEST_CASE("a path that cannot be taken, or on which ranks disagree, is refused at all ranks") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device(stand_in_refusals{.sharing = comm.rank() == 1}), willing;
    expect_error(error_of([&] { static_cast<void>(on(comm, device, {.path = device_path::ipc})); }), error_code::system,
                 "rank 1 cannot share its device");
    device_path const mine = comm.rank() == 2 ? device_path::staged : device_path::ipc;
    expect_error(error_of([&] { static_cast<void>(on(comm, device, {.path = mine})); }), error_code::bad_argument,
                 "ranks 0 and 2 name different paths");
    std::size_t const slice = comm.rank() == 2 ? 2064 : 2048;
    expect_error(error_of([&] { static_cast<void>(on(comm, device, {.slices = {.slice = slice}})); }),
                 error_code::bad_argument, "ranks 0 and 2 cut messages into slices of 2048 and 2064 bytes");
    std::size_t const endless = comm.rank() == 1 ? std::size_t(-1) : 4096;
    for (device_path const path : {device_path::ipc, device_path::automatic})
      expect_error(
          error_of([&] { static_cast<void>(on(comm, willing, {.path = path, .arena = endless})); }),
          error_code::bad_argument,
          "rank 1 cannot share its device: an arena of 18446744073709551615 bytes is larger than memory can be");
    sharing_stand_in const full(stand_in_refusals{.memory = comm.rank() == 2});
    expect_error(error_of([&] { static_cast<void>(on(comm, full)); }), error_code::system,
                 "rank 2 cannot allocate memory for messages: the stand-in refuses memory");
    expect(all_reduce(comm, 1) == 3, "the communicator goes on");
  });
}

TEST_CASE("a rank that makes another call is named on every path") {
  for (kind_of_device const& kind : {kinds[1], kinds[2]})
    on_ranks_of(3, kind, [](auto& ranks, auto& comm) {
      array const data = ones(ranks.on(), 100);
      error const e = error_of([&] {
        barrier(comm);  // where a rank may still be when others learn of the fault
        if (comm.rank() == 1) all_reduce(ranks, data, tutti::max{}, {.timeout = std::chrono::seconds{5}});
        else all_reduce(ranks, data, sum{}, {.timeout = std::chrono::seconds{5}});
        ranks.work().wait();
      });
      expect_error(e, error_code::mismatch, "rank 1");
    });
}

TEST_CASE("memory that kernels cannot access is refused on every path") {
  for (kind_of_device const& kind : kinds) {
    CAPTURE(std::string(kind.name));
    run_threads(2, [&](auto& comm) {
      sharing_stand_in device(kind.own ? comm.rank() : 0);
      if (comm.rank() == 1) device.refuses = kind.refuses;
      array const data = ones(device, 100);
      auto ranks = on(comm, device, small);
      device.forbidden = data.data();
      expect_error(error_of([&] { all_reduce(ranks, data); }), error_code::bad_argument,
                   "the input of all_reduce cannot be accessed by 1 stand-ins");
      device.forbidden = nullptr;
      all_reduce(ranks, data);
      ranks.work().wait();
      expect(values_of(device, data.data(), 100) == std::vector<float>(100, 2), "and all goes on");
    });
  }
}

TEST_CASE("a rank that leaves its calls by an exception ends those of the others at once") {
  for (bool const own : {false, true}) {
    CAPTURE(own);
    run_threads(2, [&](auto& comm) {
      sharing_stand_in const device(own ? comm.rank() : 0);
      array const data = ones(device, 1000);
      error const e = error_of([&] {
        auto ranks = on(comm, device, small);
        all_reduce(ranks, data, sum{}, {.timeout = std::chrono::seconds{20}});
        ranks.work().wait();
        if (comm.rank() == 0) {
          all_reduce(ranks, data, sum{}, {.timeout = std::chrono::seconds{20}});
          throw error({.code = error_code::bad_argument, .what = "the program gives up"});
        }
        for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) ranks.work().wait();
      });
      if (comm.rank() == 0) expect_error(e, error_code::bad_argument, "the program gives up");
      else expect_error(e, error_code::rank_left, "rank 0 gave up its calls because of an exception");
    });
  }
}
