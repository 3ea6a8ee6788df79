// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Virtual ranks on several devices of a process, compared with the host bit by bit. Streams run on their own, so a
// missing order leads to wrong results; blocks are threads.
// labels: threads
// timeout: 300
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/device_algorithms.hpp"
#include "support/device_counters.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "support/sharing_stand_in.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/device/local/ragged.hpp"
#include "tutti/tune/text.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr channel_options short_slices{.blocks = 2, .share = 256, .slots = 2, .slice = 256};

options const by_one_shot{.algorithm = algorithm_id::one_shot};

// Holds up a stream.
struct waits_for {
  std::atomic<bool> const* busy;

  template <class Group>
  void operator()(Group const&) const {
    while (busy->load()) std::this_thread::yield();
  }
};

// f(ranks, n) for ranks on two devices and on three, with channels.
template <class F>
void on_devices(F const& f) {
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1), sharing_stand_in(2)};
  for (auto const& [count, p] : {std::pair{2u, 2}, std::pair{2u, 5}, std::pair{3u, 4}}) {
    if (sanitized && p == 5) continue;
    std::span const some(all, count);
    device_channels channels(some, p, short_slices);
    cuda_local const ranks(channels);
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
      CAPTURE(count);
      CAPTURE(p);
      CAPTURE(n);
      f(ranks, n);
    }
  }
}

template <class T, class Ranks, class Op>
void check_reductions(Ranks const& ranks, std::size_t n, Op const& op) {
  int const p = ranks.size();
  std::size_t const all = n * static_cast<std::size_t>(p);
  auto const reduced =
      result_on_device<T>(ranks, p, n, p, n, [&](auto& r, auto& in, auto& out) { all_reduce(r, in, out, op); });
  CHECK(different(reduced, on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                    all_reduce(comm, in, out, op, by_one_shot);
                  })) == 0);
  CHECK(different(
            result_on_device<T>(ranks, p, n, 1, n, [&](auto& r, auto& in, auto& out) { reduce(r, in, out[0], op); }),
            {reduced[0]}) == 0);
  CHECK(different(result_on_device<T>(ranks, p, all, p, n,
                                      [&](auto& r, auto& in, auto& out) { reduce_scatter(r, in, out, op); }),
                  on_host<T>(p, all, n, [&](auto& comm, auto& in, auto& out) {
                    reduce_scatter(comm, in, out, op, by_one_shot);
                  })) == 0);
  CHECK(different(
            result_on_device<T>(ranks, p, n, p, n, [&](auto& r, auto& in, auto& out) { scan(r, in, out, op); }),
            on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) { scan(comm, in, out, op, by_one_shot); })) == 0);
  CHECK(different(result_on_device<T>(ranks, p, n, p, n,
                                      [&](auto& r, auto& in, auto& out) { exclusive_scan(r, in, out, op); }),
                  on_host<T>(p, n, n, [&](auto& comm, auto& in, auto& out) {
                    exclusive_scan(comm, in, out, op, by_one_shot);
                  })) == 0);
}

// The same calls on one device, which has a test of its own.
template <class T, class Ranks>
void check_movement(Ranks const& ranks, std::size_t n) {
  int const p = ranks.size();
  std::size_t const all = n * static_cast<std::size_t>(p);
  sharing_stand_in const alone(9);
  auto const compare = [&](int ins, std::size_t in_count, int outs, std::size_t out_count, auto const& call) {
    CHECK(different(result_on_device<T>(ranks, ins, in_count, outs, out_count, call),
                    result_on_device<T>(alone, p, ins, in_count, outs, out_count, call)) == 0);
  };
  compare(1, n, p, n, [](auto& r, auto& in, auto& out) { broadcast(r, in[0], out); });
  compare(p, n, p, all, [](auto& r, auto& in, auto& out) { all_gather(r, in, out); });
  compare(p, n, 1, all, [](auto& r, auto& in, auto& out) { gather(r, in, out[0]); });
  compare(1, all, p, n, [](auto& r, auto& in, auto& out) { scatter(r, in[0], out); });
  compare(p, all, p, all, [](auto& r, auto& in, auto& out) { all_to_all(r, in, out); });
  std::vector<std::size_t> const counts(static_cast<std::size_t>(p * p), n);
  compare(p, all, p, all, [&](auto& r, auto& in, auto& out) { all_to_all_v(r, in, counts, out); });
}

}  // namespace

TEST_CASE("reductions have the bits of the host") {
  on_devices([](auto const& ranks, std::size_t n) {
    check_reductions<float>(ranks, n, sum{});
    if constexpr (!sanitized) check_reductions<affine>(ranks, n, compose{});
  });
}

TEST_CASE("blocks come to where they belong") {
  on_devices([](auto const& ranks, std::size_t n) { check_movement<std::uint8_t>(ranks, n); });
}

TEST_CASE_TEMPLATE("algorithms have the bits of the host", Algorithm, ring, double_binary_tree, recursive_halving,
                   two_shot, bruck) {
  device_options<sharing_stand_in> const staged{.protocol = protocol::staged};
  on_devices([&](auto const& ranks, std::size_t n) {
    CHECK(wrong_reductions<Algorithm, float>(ranks, n, sum{}, staged) == 0);
    CHECK(wrong_movements<Algorithm, std::uint32_t>(ranks, n, staged) == 0);
  });
}

TEST_CASE("packets have the bits of one_shot on the host") {
  on_devices([](auto const& ranks, std::size_t n) {
    CHECK(wrong_reductions<one_shot, float>(ranks, n, sum{}) == 0);
    CHECK(wrong_movements<one_shot, std::uint8_t>(ranks, n) == 0);
  });
}

TEST_CASE("the mark of a packet is that of no other number, and memory that is 0 has none") {
  constexpr std::uint64_t numbers[]{1,
                                    2,
                                    beyond_32_bits - 1,
                                    beyond_32_bits,
                                    beyond_32_bits + 1,
                                    beyond_32_bits + 2,
                                    2 * beyond_32_bits,
                                    2 * beyond_32_bits + 1};
  for (std::uint64_t const a : numbers) {
    CAPTURE(a);
    CHECK(!packet_mark(a).is_on({}));
    for (std::uint64_t const b : numbers) CHECK(packet_mark(a).is_on(packet_mark(b).on(7, 8)) == (a == b));
  }
}

TEST_CASE("calls by packets have numbers beyond 2^32") {
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1)};
  auto const check = [](auto& channels) {
    count_packets_from(channels, beyond_32_bits - 1);
    cuda_local const ranks(channels);
    auto data = to_device(ranks, ranks_values<float>(3, std::vector<float>(100, 1.0f)));
    for (int i = 0; i < 3; ++i) all_reduce<one_shot>(ranks, data, data, sum{}, {.protocol = protocol::packet});
    ranks.work().wait();
    for (auto const& x : to_host(ranks.on(), data)) CHECK(x == std::vector<float>(100, 27.0f));
    CHECK(channels.map().packet_calls(0) == beyond_32_bits + 2);
  };
  device_channels one(all[0], 3);
  device_channels several(all, 3);
  check(one);
  check(several);
}

TEST_CASE("the tuning table says up to which size messages are packets, for one device and for several") {
  temporary_folder const folder;
  std::string const file = (folder.path() / "table").string();
  std::ofstream(file) << tuning_version << "\ndevice one_gpu packets 40\ndevice several_gpus packets 80\n";
  ::setenv("TUTTI_TUNING", file.c_str(), 1);
  auto const calls_by_packets = [](auto& channels) {
    cuda_local const ranks(channels);
    for (std::size_t const n : {10u, 11u, 20u, 21u}) {
      auto data = to_device(ranks, ranks_values<float>(2, std::vector<float>(n, 1)));
      all_reduce<one_shot>(ranks, data, data);
    }
    ranks.work().wait();
    return channels.map().packet_calls(0);
  };
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1)};
  device_channels one(all[0], 2);
  device_channels several(all, 2);
  CHECK(calls_by_packets(one) == 1);
  CHECK(calls_by_packets(several) == 3);
  std::ofstream(file) << tuning_version << "\ndevice packets 40\n";
  error const e = error_of([&] { static_cast<void>(cuda_local(several).size()); });
  CHECK(e.happened().find("\"packets 40\" is not a limit of devices") != std::string::npos);
  CHECK(cuda_local(all, 2).size() == 2);
  ::unsetenv("TUTTI_TUNING");
}

TEST_CASE("an epilogue's arrays go with their elements") {
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1)};
  cuda_local const ranks(all, 2);
  std::size_t const n = 1000;
  auto data = to_device(ranks, ranks_values<float>(2, std::vector<float>(n, 1)));
  std::vector<float> start(n);
  for (std::size_t i = 0; i < n; ++i) start[i] = static_cast<float>(i);
  auto const state = to_device(all[0], ranks_values<float>{start, std::vector<float>(n)});
  all_reduce(
      ranks, data, data,
      fused{sum{}, unchanged{}, with_arrays(sgd_step{.rate = 0.5f, .momentum = 0}, state[0].data(), state[1].data())});
  auto const got = to_host(all[0], state);
  int wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += got[0][i] != start[i] - 1;
  CHECK(wrong == 0);
}

TEST_CASE("calls of all kinds follow each other on a stream, and before and after what else it is given") {
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1), sharing_stand_in(2)};
  device_channels channels(all, 3, short_slices);
  cuda_local const ranks(channels);
  std::size_t const n = 500;
  stand_in_stream stream;
  auto data = to_device(ranks, ranks_values<std::uint32_t>(3, std::vector<std::uint32_t>(n, 1)));
  std::vector<std::uint32_t> const twos(n, 2);
  std::vector<std::uint32_t> seen(n);
  device_options<sharing_stand_in> const how{.stream = &stream};
  for (int i = 0; i < 20; ++i) {
    for (auto const& x : data) all[0].copy(&stream, x.data(), twos.data(), n * sizeof(std::uint32_t));
    all_reduce<ring>(ranks, data, data, sum{}, how);
    all_reduce(ranks, data, data, sum{}, how);
    all_reduce<double_binary_tree>(ranks, data, data, sum{}, how);
    all_reduce<one_shot>(ranks, data, data, sum{}, how);
    all[0].copy(&stream, seen.data(), data[2].data(), n * sizeof(std::uint32_t));
    all[0].wait(&stream, deadline::after(60s));
    CHECK(seen == std::vector<std::uint32_t>(n, 162));
  }
}

TEST_CASE("what all devices do is captured with the stream, and replayed") {
  sharing_stand_in const all[]{sharing_stand_in(0), sharing_stand_in(1)};
  device_channels channels(all, 4, short_slices);
  cuda_local const ranks(channels);
  stand_in_stream stream;
  auto data = to_device(ranks, ranks_values<std::uint32_t>(4, std::vector<std::uint32_t>(300, 1)));
  device_options<sharing_stand_in> const how{.stream = &stream};
  stream.begin_capture();
  all_reduce(ranks, data, data, sum{}, how);
  all_reduce<ring>(ranks, data, data, sum{}, how);
  auto const graph = stream.end_capture();
  CHECK(to_host(all[0], data)[3][299] == 1);
  for (int i = 0; i < 3; ++i) stand_in_stream::launch(graph);
  all[0].wait(&stream, deadline::after(60s));
  all_reduce(ranks, data, data, sum{}, how);
  all[0].wait(&stream, deadline::after(60s));
  CHECK(different(to_host(all[0], data), ranks_values<std::uint32_t>(4, std::vector<std::uint32_t>(300, 1u << 14))) ==
        0);
}

TEST_CASE("buffers that a device cannot access are refused before anything is launched") {
  sharing_stand_in all[]{sharing_stand_in(0), sharing_stand_in(1)};
  cuda_local const ranks(all, 3);
  std::vector<std::size_t> const counts{5, 0, 2};
  auto in = to_device(ranks, all_values<float>(3, 30)), out = to_device(ranks, all_values<float>(3, 30));
  auto parts = to_device(ranks, ranks_values<float>{{1, 1, 1, 1, 1}, {}, {1, 1}}),
       gathered = to_device(ranks, all_values<float>(3, 7));
  auto const before = to_host(all[0], out);
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    auto const refused = [&](void const* memory, std::string const& buffer, auto const& call) {
      all[0].forbidden = memory;
      error const e = error_of(call);
      CHECK(e.code() == error_code::bad_argument);
      CHECK(e.happened() == "the " + buffer + " cannot be accessed by 2 stand-ins");
      CHECK(e.rank() == static_cast<int>(r));
    };
    refused(in[r].data(), "input of all_reduce", [&] { all_reduce(ranks, in, out); });
    refused(out[r].data(), "output of all_reduce", [&] { all_reduce(ranks, in, out); });
    refused(out[r].data(), "output of all_to_all", [&] { all_to_all(ranks, in, out); });
    if (counts[r] == 0) continue;
    refused(parts[r].data(), "input of all_gather", [&] { all_gather_v(ranks, parts, gathered, counts); });
  }
  CHECK(different(to_host(all[0], out), before) == 0);
  all[0].forbidden = parts[1].data();  // of which nothing is read
  CHECK_NOTHROW(all_gather_v(ranks, parts, gathered, counts));
  all[0].wait({}, deadline::after(60s));
}

TEST_CASE("ranks that send each other messages must run at once") {
  sharing_stand_in all[]{sharing_stand_in(0), sharing_stand_in(1)};
  device_channels channels(all, 4, short_slices);
  cuda_local const ranks(channels);
  for (auto& on : all) on.at_once = 1;
  auto data = to_device(ranks, all_values<float>(4, 10));
  auto const e = error_of([&] { all_reduce<ring>(ranks, data, data); });
  CHECK(e.happened() ==
        "a device that runs 1 blocks of this kernel at once cannot have 2 ranks that send each other messages");
}

TEST_CASE("a launch that fails on one device ends the kernels on others, but not those of calls before") {
  for (auto const by : {protocol::staged, protocol::packet}) {
    CAPTURE(name(by));
    sharing_stand_in all[]{sharing_stand_in(0), sharing_stand_in(1), sharing_stand_in(2)};
    device_channels channels(all, 3, short_slices);
    cuda_local const ranks(channels);
    auto const values = ranks_values<float>(3, std::vector<float>(100, 1));
    auto first = to_device(ranks, values), second = to_device(ranks, values);
    device_options<sharing_stand_in> const how{.protocol = by};
    auto const call = [&](auto const& on, auto& data) { all_reduce<one_shot>(on, data, data, sum{}, how); };
    // The first call is launched on all devices, but has yet to run.
    std::atomic<bool> late{true};
    all[0].launch({}, 1, waits_for{&late});
    call(ranks, first);
    all[1].refuses.launching = true;
    CHECK(error_of([&] { call(ranks, second); }).happened() == "the stand-in refuses to launch a kernel");
    late = false;
    all[0].wait({}, deadline::after(60s));  // kernels of device 0 have ended
    CHECK(different(to_host(all[0], first), ranks_values<float>(3, std::vector<float>(100, 3))) == 0);

    all[1].refuses.launching = false;
    error const e = error_of([&] { call(ranks, second); });
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.happened().find("cannot be used after a call that was launched on some devices") != std::string::npos);
    CHECK(e.way_out() == "create new device_channels");

    device_channels fresh(all, 3, short_slices);
    call(cuda_local(fresh), first);
    all[0].wait({}, deadline::after(60s));
    CHECK(different(to_host(all[0], first), ranks_values<float>(3, std::vector<float>(100, 9))) == 0);
  }
}

TEST_CASE("a launch that fails during a capture, or on the first device, leaves the channels usable") {
  sharing_stand_in all[]{sharing_stand_in(0), sharing_stand_in(1)};
  device_channels channels(all, 2, short_slices);
  cuda_local const ranks(channels);
  auto data = to_device(ranks, ranks_values<float>(2, std::vector<float>(100, 1)));
  stand_in_stream stream;
  auto const call = [&] { all_reduce<ring>(ranks, data, data, sum{}, {.stream = &stream}); };
  auto const refused = [&](sharing_stand_in& by) {
    by.refuses.launching = true;
    CHECK(error_of(call).happened() == "the stand-in refuses to launch a kernel");
    by.refuses.launching = false;
  };
  stream.begin_capture();
  refused(all[1]);
  static_cast<void>(stream.end_capture());
  refused(all[0]);
  call();
  all[0].wait(&stream, deadline::after(60s));
  CHECK(different(to_host(all[0], data), ranks_values<float>(2, std::vector<float>(100, 2))) == 0);
}

TEST_CASE("devices that cannot work together are refused") {
  sharing_stand_in const twice[]{sharing_stand_in(0), sharing_stand_in(1), sharing_stand_in(0)};
  for (auto const& e : {error_of([&] { cuda_local(twice, 4); }), error_of([&] { device_channels(twice, 4); })}) {
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.happened() == "a list of devices has the same one at places 0 and 2");
  }
  sharing_stand_in const apart[]{sharing_stand_in(0), sharing_stand_in(1)};
  sharing_stand_in all[]{sharing_stand_in(0), sharing_stand_in(1)};
  all[1].refuses.reaching = true;
  CHECK(error_of([&] { cuda_local(all, 4); }).happened() == "the stand-in refuses to reach device 0");
  CHECK(error_of([&] { device_channels(all, 4); }).code() == error_code::system);
  CHECK(error_of([&] { cuda_local(std::span<sharing_stand_in const>(), 4); }).happened() ==
        "a list of devices is empty");
  CHECK(error_of([&] { cuda_local(apart, 65); }).code() == error_code::bad_argument);
}
