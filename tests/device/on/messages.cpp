// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Large messages among ranks that read each other's memory: they go from device to device, and never through the host. Here among
// processes; tests/device/on/cuda_ranks.cpp and tests/device/staged/batch.cpp do the same among threads.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
using namespace std::chrono_literals;

namespace {

using message = device_array<sharing_stand_in, float>;

constexpr std::size_t slice_of_messages = 2048;

// f(ranks, comm) in processes that share a device, or have one each.
template <class F>
void with_devices(int p, bool own, F const& f) {
  CAPTURE(p);
  run_local(p, [&](auto& comm) {
    sharing_stand_in const device(own ? comm.rank() + 1 : 0);
    auto ranks = on(comm, device, {.arena = 4096, .slices = {.slice = slice_of_messages}});
    expect(ranks.path() == device_path::ipc, ranks.explain());
    f(ranks, comm);
  });
}

void write_message(sharing_stand_in const& on, float* to, std::vector<float> const& values) {
  on.copy({}, to, values.data(), values.size() * sizeof(float));
  on.wait({}, deadline::after(60s));
}
std::vector<float> read_message(sharing_stand_in const& on, float const* from, std::size_t n) {
  std::vector<float> out(n);
  on.copy({}, out.data(), from, n * sizeof(float));
  on.wait({}, deadline::after(60s));
  return out;
}

// The rank sends n floats to its right neighbour, from memory of the ranks or from its own.
template <class Ranks>
void pass_to_the_right(Ranks& ranks, int rank, int p, std::span<float> in, std::span<float> out) {
  int const right = (rank + 1) % p, left = (rank + p - 1) % p;
  write_message(ranks.on(), in.data(), uneven_values<float>(rank, in.size()));
  received const got = send_recv(ranks, in, right, out, left, 3);
  expect(got == received{left, 3, in.size()}, "who sent what");
  expect(read_message(ranks.on(), out.data(), in.size()) == uneven_values<float>(left, in.size()), "the message");
}

}  // namespace

TEST_CASE("large messages go from device to device, from memory of the ranks and from any other") {
  std::size_t const slice = slice_of_messages / sizeof(float);
  for (int const p : {1, 2, 3, 5})
    for (bool const own : {true, false})
      with_devices(p, own, [&](auto& ranks, auto& comm) {
        std::size_t const most = 40 * slice + 7;
        std::span<float> const shared_in = ranks.template allocate<float>(most),
                               shared_out = ranks.template allocate<float>(most);
        message const in(ranks.on(), most), out(ranks.on(), most);
        for (std::size_t const n : {8 * slice + 1, 9 * slice, most}) {
          for (bool const from_shared : {false, true})
            for (bool const to_shared : {false, true})
              pass_to_the_right(ranks, comm.rank(), p, (from_shared ? shared_in : std::span(in.data(), most)).first(n),
                                (to_shared ? shared_out : std::span(out.data(), most)).first(n));
        }
        expect(ranks.on().by_host == 0, "a large message went through pinned memory");
        // A message of one slice is too small to go from device to device.
        pass_to_the_right(ranks, comm.rank(), p, shared_in.subspan(5, slice), shared_out.subspan(1, slice));
        expect(ranks.on().by_host > 0, "a small message did not go through pinned memory");
        barrier(comm);
      });
}

TEST_CASE("a message in one piece that has the bytes of a slice is complete") {
  run_local(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    std::size_t const n = 8192;
    auto ranks = on(comm, device, {.arena = 4096, .slices = {.slice = n * sizeof(float)}});
    std::span<float> const in = ranks.template allocate<float>(n), out = ranks.template allocate<float>(n);
    pass_to_the_right(ranks, comm.rank(), 2, in, out);
    expect(device.by_host == 0, "a large message went through pinned memory");
    barrier(comm);
  });
}

TEST_CASE("more messages than slots, received in another order than they were sent in") {
  with_devices(2, true, [](auto& ranks, auto& comm) {
    std::size_t const n = 5000;
    int const other = 1 - comm.rank(), count = 3 * static_cast<int>(message_outbox::slots);
    std::vector<message> sent, taken;
    device_batch sends(ranks);
    for (int k = 0; k < count; ++k) {
      sent.emplace_back(ranks.on(), n);
      taken.emplace_back(ranks.on(), n);
      write_message(ranks.on(), sent.back().data(), uneven_values<float>(comm.rank() * 100 + k, n));
      sends.send(sent.back(), other, k);
    }
    work const all = sends.start();
    for (int k = count - 1; k >= 0; --k) {
      message const& to = taken[static_cast<std::size_t>(k)];
      expect(recv(ranks, to, k % 2 == 0 ? any_source : other, k) == received{other, k, n}, "who sent what");
      expect(read_message(ranks.on(), to.data(), n) == uneven_values<float>(other * 100 + k, n), "the message");
    }
    work(all).wait();
    barrier(comm);
  });
}

TEST_CASE("a message is sent after earlier work of its stream") {
  with_devices(2, true, [](auto& ranks, auto& comm) {
    std::size_t const n = 6000;
    std::span<float> const data = ranks.template allocate<float>(n);
    message const other(ranks.on(), n);
    stand_in_stream stream;
    for (float* const from : {data.data(), other.data()}) {
      if (comm.rank() == 0) {
        stream.add([=] {
          std::this_thread::sleep_for(50ms);
          std::fill(from, from + n, 2.5f);
        });
        send(ranks, std::span<float>(from, n), 1, 0, {.stream = &stream});
      } else {
        recv(ranks, std::span<float>(from, n), 0, 0, {.stream = &stream});
        expect(read_message(ranks.on(), from, n) == std::vector<float>(n, 2.5f), "what the stream had written");
      }
    }
    barrier(comm);
  });
}

TEST_CASE("messages that do not fit are refused at both ranks") {
  std::size_t const n = 6000;
  with_devices(2, true, [&](auto& ranks, auto& comm) {
    message const data(ranks.on(), n);
    error const e = error_of([&] {
      if (comm.rank() == 0) send(ranks, data, 1);
      else recv(ranks, std::span(data.data(), n - 1), 0);
      barrier(comm);
    });
    expect_error(e, error_code::mismatch, comm.rank() == 0 ? "does not fit" : "does not fit the recv");
  });
  with_devices(2, true, [&](auto& ranks, auto& comm) {
    std::span<float> const data = ranks.template allocate<float>(n);
    error const e = error_of([&] {
      if (comm.rank() == 0) send(ranks, data, 1);
      else recv(ranks, std::span(data.data(), n - 1), 0);
      barrier(comm);
    });
    expect_error(
        e, error_code::mismatch,
        "a message of 24000 bytes of float from rank 0, tag 0, in memory of a device, does not fit the recv of up "
        "to 5999 float");
  });
  with_devices(2, true, [&](auto& ranks, auto& comm) {
    message const data(ranks.on(), n);
    device_array<sharing_stand_in, std::int32_t> const others(ranks.on(), n);
    error const e = error_of([&] {
      if (comm.rank() == 0) send(ranks, data, 1);
      else recv(ranks, others, 0);
      barrier(comm);
    });
    expect_error(e, error_code::mismatch, "bytes of float from rank 0, tag 0");
  });
  with_devices(2, true, [&](auto& ranks, auto& comm) {
    std::span<float> const data = ranks.template allocate<float>(n);
    std::vector<float> at_host(n);
    error const e = error_of([&] {
      if (comm.rank() == 0) send(ranks, data, 1);
      else recv(comm, at_host, 0);
      barrier(comm);
    });
    expect_error(e, error_code::mismatch, "in memory of a device, which a host cannot receive");
  });
}

TEST_CASE("a rank that does not come, or has ended, is named") {
  std::size_t const n = 6000;
  for (bool const sends : {true, false})
    with_devices(3, true, [&](auto& ranks, auto& comm) {
      message const data(ranks.on(), n);
      error const e = error_of([&] {
        if (comm.rank() == 0 && sends) send(ranks, data, 2, 9, {.timeout = 200ms});
        if (comm.rank() == 0 && !sends) recv(ranks, data, 2, 9, {.timeout = 200ms});
        barrier(comm);
      });
      expect_error(e, error_code::timeout, sends ? "to rank 2, tag 9" : "of up to 6000 float from rank 2, tag 9");
    });
  std::string said;
  try {
    with_devices(3, true, [&](auto& ranks, auto& comm) {
      message const data(ranks.on(), n);
      error const e = error_of([&] {
        barrier(comm);
        if (comm.rank() == 2) std::raise(SIGKILL);
        if (comm.rank() == 0) recv(ranks, data, 2);
        else send(ranks, data, 2);
      });
      expect_error(e, error_code::rank_lost, "rank 2");
    });
  } catch (std::exception const& e) {
    said = e.what();  // of the rank that was killed
  }
  CAPTURE(said);
  CHECK(said.find("rank 2 was ended by signal 9") != std::string::npos);
  CHECK(said.find("rank 0") == std::string::npos);
}
