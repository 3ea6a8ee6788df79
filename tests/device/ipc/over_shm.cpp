// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same among processes, which open each other's memory; one that is killed; graphs and registered buffers.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

// f(ranks, comm) in processes that share a device, or have one each.
template <class F>
void on_processes(int ranks, std::size_t arena, F const& f, bool own = false) {
  run_local(ranks, [&](auto& comm) {
    sharing_stand_in const device(own ? comm.rank() + 1 : 0);
    cuda_ipc all(comm, device, arena);
    f(all, comm);
  });
}

template <class Ranks>
std::vector<float> values_of(Ranks& ranks, float const* data, std::size_t n, stand_in_stream* stream = nullptr) {
  std::vector<float> out(n);
  ranks.on().copy(stream, out.data(), data, n * sizeof(float));
  ranks.on().wait(stream, deadline::after(60s));
  return out;
}
template <class Ranks>
void fill(Ranks& ranks, float* data, std::vector<float> const& values, stand_in_stream* stream = nullptr) {
  ranks.on().copy(stream, data, values.data(), values.size() * sizeof(float));
  ranks.on().wait(stream, deadline::after(60s));
}

}  // namespace

TEST_CASE("collectives have the bits of the host") {
  for (int const p : {2, 4})
    for (std::size_t const arena : {std::size_t{4096}, std::size_t{1} << 20})
      on_processes(p, arena, [&](auto& ranks, auto& comm) {
        for (std::size_t const n : {std::size_t{1}, std::size_t{4099}}) {
          check_reductions_of<float>(ranks, comm, n, sum{});
          check_movement_of<std::uint16_t>(ranks, comm, n);
        }
      });
}

TEST_CASE("kernels of processes that have a device each wait for each other") {
  on_processes(
      3, 4096,
      [](auto& ranks, auto& comm) {
        check_reductions_of<float>(ranks, comm, 1000, sum{});
        check_movement_of<std::uint16_t>(ranks, comm, 1000);
        check_named<ring, float>(ranks, comm, 4099, sum{});
        check_named<double_binary_tree, float>(ranks, comm, 4099, sum{});
      },
      true);
}

TEST_CASE("registered buffers are read where they are") {
  for (int const p : {2, 3})
    on_processes(p, 1024, [&](auto& ranks, auto& comm) {
      std::size_t const n = 5000;
      auto const in = ranks.template allocate<float>(2 * n), out = ranks.template allocate<float>(n * 4);
      auto const mine = uneven_values<float>(comm.rank(), 2 * n);
      auto const right = [&](std::vector<float> const& got, auto const& host, std::size_t count) {
        std::vector<float> expected(count);
        host(expected);
        expect(different(ranks_values<float>{got}, ranks_values<float>{expected}) == 0, "bits");
      };
      std::vector<float> const first(mine.begin(), mine.begin() + n);
      auto const sum_on_host = [&](auto& to) {
        all_reduce(comm, first, to, sum{}, {.algorithm = algorithm_id::one_shot});
      };
      for (int turn = 0; turn < 3; ++turn) {
        fill(ranks, in.data(), mine);
        all_reduce(ranks, in.first(n), out.first(n), sum{}, {.symmetric = true});
        right(values_of(ranks, out.data(), n), sum_on_host, n);
        all_reduce(ranks, in.first(n), out.subspan(7, n), sum{},
                   {.algorithm = algorithm_id::two_shot, .symmetric = true});
        right(values_of(ranks, out.data() + 7, n), sum_on_host, n);
        for (auto const algorithm : {algorithm_id::one_shot, algorithm_id::two_shot}) {
          fill(ranks, in.data(), mine);
          all_reduce(ranks, in.first(n), sum{}, {.algorithm = algorithm, .symmetric = true});
          right(values_of(ranks, in.data(), n), sum_on_host, n);
        }
        fill(ranks, in.data(), mine);
        all_gather(ranks, in.first(n), out.first(n * static_cast<std::size_t>(p)), {.symmetric = true});
        right(
            values_of(ranks, out.data(), n * static_cast<std::size_t>(p)),
            [&](auto& to) { all_gather(comm, first, to); }, n * static_cast<std::size_t>(p));
        broadcast(ranks, in.first(n), p - 1, {.symmetric = true});
        right(
            values_of(ranks, in.data(), n),
            [&](auto& to) {
              to = first;
              broadcast(comm, to, p - 1);
            },
            n);
      }
    });
}

TEST_CASE("a captured call can be replayed, between others") {
  on_processes(3, 4096, [](auto& ranks, auto&) {
    std::size_t const n = 3000;
    stand_in_stream stream, other;
    {
      device_array<sharing_stand_in, float> const data(ranks.on(), n);
      fill(ranks, data.data(), std::vector<float>(n, 1));
      stream.begin_capture();
      all_reduce(ranks, data, sum{}, {.stream = &stream});
      all_reduce(ranks, data, sum{}, {.stream = &stream, .algorithm = algorithm_id::two_shot});
      auto const graph = stream.end_capture();
      stand_in_stream::launch(graph);
      stand_in_stream::launch(graph);
      ranks.on().wait(&stream, deadline::after(60s));
      all_reduce(ranks, data, max{}, {.stream = &other});
      ranks.on().wait(&other, deadline::after(60s));
      stand_in_stream::launch(graph);
      expect(values_of(ranks, data.data(), n, &stream) == std::vector<float>(n, 729), "3 to the 6th");
    }
  });
}

TEST_CASE("many calls in flight, on two streams by turns") {
  on_processes(4, 4096, [](auto& ranks, auto&) {
    std::size_t const n = 1500;
    stand_in_stream streams[2];
    device_array<sharing_stand_in, float> const data(ranks.on(), n);
    fill(ranks, data.data(), std::vector<float>(n, 1));
    for (int i = 0; i < 200; ++i) {
      all_reduce(ranks, data, max{}, {.stream = &streams[i % 2]});
      broadcast(ranks, data, i % 4, {.stream = &streams[(i / 3) % 2]});
    }
    all_reduce(ranks, data, sum{}, {.stream = &streams[0]});
    expect(values_of(ranks, data.data(), n, &streams[0]) == std::vector<float>(n, 4), "the sum of ones");
  });
}

// The launcher's report after rank 1 was killed, while the others make call(ranks, data, out) without it. The end of a
// rank unmaps its memory, so the others have finished the call before by then.
template <class Call>
std::string said_of_killed(bool own, Call const& call) {
  auto const unmap = [](std::atomic<int>* count) { ::munmap(count, sizeof *count); };
  std::unique_ptr<std::atomic<int>, decltype(unmap)> const through{static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))};
  try {
    on_processes(
        3, 4096,
        [&](auto& ranks, auto& comm) {
          std::size_t const n = 20000;
          device_array<sharing_stand_in, float> const data(ranks.on(), n), out(ranks.on(), n);
          fill(ranks, out.data(), std::vector<float>(n, 7));
          all_reduce(ranks, data);
          ranks.work().wait();
          ++*through;
          while (comm.rank() == 1) {
            if (*through == 3) ::raise(SIGKILL);
            std::this_thread::yield();
          }
          call(ranks, data, out);
          expect_error(error_of([&] { ranks.work().wait(); }), error_code::rank_lost, "the process of rank 1 ended");
          auto const got = values_of(ranks, out.data(), n);
          if (!own) expect(got == std::vector<float>(n, 7), "nothing was written");
          expect_error(error_of([&] { barrier(ranks); }), error_code::rank_lost, "while rank ");
        },
        own);
  } catch (error const& e) {
    return e.what();
  }
  return "nothing";
}
void check_killed(std::string const& said) {
  CAPTURE(said);
  CHECK(said.find("rank 1 was ended by signal 9") != std::string::npos);
  CHECK(said.find("rank 0") == std::string::npos);
  CHECK(said.find("rank 2") == std::string::npos);
}

TEST_CASE("a process that is killed in the middle") {
  check_killed(said_of_killed(false, [](auto& ranks, auto& data, auto& out) { all_reduce(ranks, data, out); }));
}

TEST_CASE("kernels do not wait for a process that is killed") {
  check_killed(said_of_killed(true, [](auto& ranks, auto& data, auto& out) { all_reduce<ring>(ranks, data, out); }));
  check_killed(said_of_killed(true, [](auto& ranks, auto& data, auto& out) {
    std::span const few(out.data(), 100);
    all_reduce(ranks, std::span(data.data(), 100), few);
  }));
}
