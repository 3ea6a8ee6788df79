// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that communicate through a window, of virtual ranks and of ranks with a device each; here blocks are threads.
// labels: threads
#include "tutti/device/api/window.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/device_windows.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/window.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

// Meets the other ranks, in vain, and takes its time to give up.
struct end_late {
  std::atomic<bool>* ended;

  template <class Here>
  void operator()(Here& here) const {
    static_cast<void>(here.barrier());
    std::this_thread::sleep_for(300ms);
    *ended = true;
  }
};

struct stand_in_launch {
  template <class Kernel>
  void operator()(sharing_stand_in const& on, stand_in_stream* stream, int blocks, Kernel const& kernel) const {
    on.launch_together(stream, blocks, kernel);
  }
};

template <class Ranks>
void check_window(Ranks const& ranks) {
  for (auto const& [n, at, blocks] : {std::tuple{1, 0, 1}, std::tuple{37, 3, 2}, std::tuple{64, 0, 1}})
    expect(passes_on(ranks, static_cast<std::size_t>(n), static_cast<std::size_t>(at), blocks), "puts and signals");
  expect(shares_in_block(ranks, 20), "elements that threads of a block share");
  expect(adds_all(ranks, 33, 2, 5, 3), "barriers");
  expect(adds_packets(ranks, 9, 7), "packets");
  expect(deals_packets(ranks), "packets of 8 bytes");
  expect(counts_on(ranks), "counters beyond 2^32");
}

}  // namespace

TEST_CASE("virtual ranks communicate through a window") {
  for (int const p : {1, 2, 3, 5}) {
    sharing_stand_in const device;
    cuda_local const ranks(device, p);
    check_window(virtual_ranks(ranks, stand_in_launch{}));
  }
}

TEST_CASE("ranks with a device each communicate through a window") {
  for (int const p : {1, 2, 3})
    run_threads(p, [](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      cuda_ipc ranks(comm, device, 4096);
      check_window(own_rank(comm, ranks, stand_in_launch{}));
    });
}

TEST_CASE("a virtual rank that does not come is named, and no call hangs") {
  sharing_stand_in const device;
  cuda_local const ranks(device, 3);
  virtual_ranks const all(ranks, stand_in_launch{});
  for (auto const way : {miss_one::by_wait, miss_one::by_barrier, miss_one::by_exchange})
    expect(names_absent(all, way, 1, 50ms,
                        [](auto const& w) {
                          error const e = error_of([&] { w.wait(); });
                          expect_error(e, error_code::timeout, "waited 0.05 s in vain for rank 1");
                          expect(e.peer() == 1, "who is missing");
                          expect_error(error_of([&] { w.wait(); }), error_code::timeout, "in vain");
                          return true;
                        }),
           "the kernels heard of it");
}

TEST_CASE("a rank with a device of its own that does not come is named at all ranks") {
  for (auto const way : {miss_one::by_wait, miss_one::by_barrier, miss_one::by_exchange})
    run_threads(3, [&](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      cuda_ipc ranks(comm, device, 4096);
      own_rank const own(comm, ranks, stand_in_launch{});
      bool const heard = names_absent(own, way, 1, 50ms, [](auto const& w) {
        error const e = error_of([&] {
          for (;; std::this_thread::sleep_for(1ms)) w.wait();
        });
        expect_error(e, error_code::timeout, "waited 0.05 s in vain for rank 1, which is before its first call");
        return true;
      });
      expect(heard, "the kernels heard of it");
      expect_error(error_of([&] { barrier(ranks); }), error_code::timeout, "in vain for rank 1");
    });
}

TEST_CASE("a window may wait for ever") {
  sharing_stand_in const device;
  cuda_local const ranks(device, 1);
  virtual_ranks const all(ranks, stand_in_launch{});
  auto const w = all.open(1, {.timeout = std::chrono::nanoseconds::max()});
  std::atomic<bool> ended = false;
  all.run(w, 1, end_late{&ended});
  w.wait();
  expect(ended, "the kernel has ended");
}

TEST_CASE("a wait that throws lets the kernels of this rank end first") {
  run_threads(2, [](auto& comm) {
    std::atomic<bool> ended = comm.rank() == 1;
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 4096);
    own_rank const own(comm, ranks, stand_in_launch{});
    auto const w = own.open(1, {.blocks = 1, .packets = 1, .timeout = 50ms});
    if (comm.rank() == 0) own.run(w, 1, end_late{&ended});
    expect_error(error_of([&] {
                   for (;; std::this_thread::sleep_for(1ms)) w.wait();
                 }),
                 error_code::timeout, "in vain for rank 1");
    expect(ended, "the kernel has ended");
  });
}

TEST_CASE("a rank that leaves because of an exception ends the kernels that wait for it") {
  run_threads(3, [](auto& comm) {
    std::atomic<bool> ended = false;
    error const e = error_of([&] {
      sharing_stand_in const device(comm.rank() + 1);
      cuda_ipc ranks(comm, device, 4096);
      own_rank const own(comm, ranks, stand_in_launch{});
      auto const w = own.open(1, {.blocks = 1, .packets = 1, .timeout = 20s});
      if (comm.rank() == 1) throw error({.code = error_code::bad_argument, .what = "the program gives up"});
      own.run(w, 1, end_late{&ended});
      w.wait();
    });
    if (comm.rank() == 1) expect_error(e, error_code::bad_argument, "the program gives up");
    else expect_error(e, error_code::rank_left, "rank 1 gave up its calls because of an exception");
    expect(ended == (comm.rank() != 1), "the kernels have ended");
  });
}

TEST_CASE("what a window does not allow ends in an error") {
  sharing_stand_in const device;
  cuda_local const ranks(device, 2);
  virtual_ranks const all(ranks, stand_in_launch{});
  for (auto const& [way, words] : refusals_of_misuse) {
    auto const w = all.open(8, {.blocks = 1, .packets = 4, .timeout = 10s});
    all.run(w, way == misuse::of_block ? 2 : 1, misuse{way});
    error const e = error_of([&] { w.wait(); });
    expect_error(e, error_code::bad_argument, words);
    expect_error(e, error_code::bad_argument, "correct the kernel, or open a window that is large enough");
  }
}

TEST_CASE("all ranks hear what a window does not allow one of them") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 4096);
    own_rank const own(comm, ranks, stand_in_launch{});
    auto const w = own.open(8, {.blocks = 1, .packets = 4, .timeout = 10s});
    if (comm.rank() == 1) own.run(w, 1, misuse{misuse::of_packets});
    error const e = error_of([&] {
      for (;; std::this_thread::sleep_for(1ms)) w.wait();
    });
    expect_error(e, error_code::bad_argument, "a kernel of rank 1 exchanged 65535 packets or more at once");
    expect_error(e, error_code::bad_argument, "correct the kernel, or open a window that is large enough");
  });
}

TEST_CASE("a window is refused to processes that share a device, with other sizes, and for too many blocks") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const shared, own(comm.rank() + 1);
    {
      cuda_ipc ranks(comm, shared, 4096);
      expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, 10)); }), error_code::bad_argument,
                   "processes that share a device, where kernels run in turn");
    }
    cuda_ipc ranks(comm, own, 4096);
    auto const size = static_cast<std::size_t>(10 + comm.rank());
    expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, size)); }), error_code::bad_argument,
                 "rank 0 opens a window of 10 x 4 bytes for 32 blocks and 256 packets, rank 1 one of 11");
    expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, 1, {.blocks = 2000})); }),
                 error_code::bad_argument, "a window for 2000 blocks");
    window_options const bad_at_one{.blocks = comm.rank() == 0 ? 32 : 2000};
    expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, 1, bad_at_one)); }),
                 error_code::bad_argument, "rank 1 one of 1 x 4 bytes for 2000 blocks and 256 packets");
    window_options const late{.timeout = comm.rank() == 0 ? 1s : -1s};
    expect_error(
        error_of([&] { static_cast<void>(open_window<float>(ranks, 1, late)); }), error_code::bad_argument,
        "with a timeout of 1 s, rank 1 one of 1 x 4 bytes for 32 blocks and 256 packets, with a timeout of -1 s");
  });
}

TEST_CASE("a window of more elements than memory holds is refused at all ranks") {
  // The last two have 4 bytes, and none, if the product of count and size overflows.
  for (std::size_t const size : {~std::size_t{0}, (std::size_t{1} << 62) + 1, std::size_t{1} << 62}) {
    run_threads(2, [size](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      cuda_ipc ranks(comm, device, 4096);
      expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, size)); }), error_code::bad_argument,
                   "a window has " + std::to_string(size) + " elements, which is more than memory can hold");
      std::size_t const other = comm.rank() == 0 ? std::size_t{1} : (std::size_t{1} << 62) + 1;
      expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, other)); }), error_code::bad_argument,
                   "rank 0 opens a window of 1 x 4 bytes");
      static_cast<void>(open_window<float>(ranks, 1));
    });
    sharing_stand_in const device;
    cuda_local const local(device, 2);
    expect_error(error_of([&] { static_cast<void>(open_window<float>(local, size)); }), error_code::bad_argument,
                 "elements, which is more than memory can hold");
  }
}

TEST_CASE("ranks of `on` communicate through a window") {
  for (int const p : {1, 2})
    run_threads(p, [](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      auto ranks = on(comm, device, {.path = device_path::ipc, .arena = 4096, .slices = {.slice = 2048}});
      own_rank const own(comm, ranks, stand_in_launch{});
      expect(passes_on(own, 37, 3, 2), "puts and signals");
      expect(adds_packets(own, 9, 7), "packets");
    });
}

TEST_CASE("the window of ranks of `on` waits for their stream") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    stand_in_stream stream;
    auto ranks = on(comm, device, {.stream = &stream, .arena = 4096, .slices = {.slice = 2048}});
    auto const w = open_window<float>(ranks, 1, {.blocks = 1, .packets = 1});
    std::atomic<bool> ended = false;
    stream.add([&] {
      std::this_thread::sleep_for(50ms);
      ended = true;
    });
    w.wait();
    expect(ended, "what the stream was given before");
  });
}

TEST_CASE("a window is refused to ranks of `on` that do not read each other's memory") {
  auto const said_to = [](device_path path) {
    return errors_of(2, [path](auto& comm) {
      sharing_stand_in const device(comm.rank() + 1);
      auto ranks = on(comm, device, {.path = path, .arena = 4096, .slices = {.slice = 2048}});
      static_cast<void>(open_window<float>(ranks, 1));
    });
  };
  for (error const& e : said_to(device_path::staged))
    expect_error(e, error_code::bad_argument,
                 "among ranks that do not all read each other's memory, because the program asked for it");
}

TEST_CASE("the elements of a window are a symmetric buffer of collectives") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device(comm.rank() + 1);
    cuda_ipc ranks(comm, device, 4096);
    auto const w = open_window<float>(ranks, 100, {.blocks = 1, .packets = 1});
    std::vector<float> values(100, 1.0f);
    device.copy({}, w.local().data(), values.data(), 400);
    auto const out = ranks.template allocate<float>(100);
    all_reduce(ranks, w.local(), out, sum{}, {.symmetric = true});
    device.copy({}, values.data(), out.data(), 400);
    ranks.work().wait();
    expect(values == std::vector<float>(100, 3.0f), "their sum");
  });
}
