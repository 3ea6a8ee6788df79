// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with devices whose calls are invalid, or that are late, gone, or make different calls: all of them get an
// error, and no garbage.
// labels: threads
// timeout: 120
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/even_arrays.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

TEST_CASE("what one rank cannot share no rank shares") {
  for (auto const& [refused, words] :
       {std::pair{stand_in_refusals{.memory = true}, "rank 1 cannot share its device: the stand-in refuses memory"},
        std::pair{stand_in_refusals{.sharing = true},
                  "rank 1 cannot share its device: the stand-in refuses to share memory"},
        std::pair{stand_in_refusals{.opening = true},
                  "rank 1 cannot share its device: the stand-in refuses to open memory of another process"}})
    run_threads(3, [&](auto& comm) {
      sharing_stand_in const device(comm.rank() == 1 ? refused : stand_in_refusals{});
      expect_error(error_of([&] { cuda_ipc(comm, device, 4096); }), error_code::system, words);
      barrier(comm);
      sharing_stand_in const better;
      cuda_ipc ranks(comm, better, 4096);
      array const data = filled(better, 10, 1);
      all_reduce(ranks, data);
      ranks.work().wait();
      expect(all_are(better, data, 3), "after that, it works");
    });
}

namespace {

struct device_with_few_queues : sharing_stand_in {
  using sharing_stand_in::sharing_stand_in;
  static constexpr bool streams_share_queues = true;
};

}  // namespace

TEST_CASE("threads whose streams can hold up each other are refused") {
  run_threads(3, [](auto& comm) {
    device_with_few_queues const shared(comm.rank() / 2), own(comm.rank());
    error const e = error_of([&] { cuda_ipc(comm, shared, 4096); });
    expect_error(e, error_code::system, "ranks 0 and 1 are threads of one process on one device");
    cuda_ipc ranks(comm, own, 4096);
    array const data = filled(own, 10, 1);
    all_reduce(ranks, data);
    ranks.work().wait();
    expect(all_are(own, data, 3), "with a device each, it works");
  });
}

TEST_CASE("a buffer that one rank cannot open no rank reads") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in device;
    array const data = filled(device, 100, 1);
    cuda_ipc ranks(comm, device, 4096);
    {
      array const buffer = filled(device, 100, 1);
      device.refuses.opening = comm.rank() == 1;
      expect_error(error_of([&] { ranks.register_buffer(std::span(buffer.data(), buffer.size())); }),
                   error_code::system, "rank 1 cannot share its device");
      device.refuses.opening = false;
    }
    all_reduce(ranks, data);
    ranks.work().wait();
    expect(all_are(device, data, 3), "and all goes on");
  });
}

namespace {

struct device_of_full_host : sharing_stand_in {
  bool full = false;

  void signal(stand_in_stream* stream, std::span<stream_signal const> signals) const {
    if (full) throw std::bad_alloc();
    sharing_stand_in::signal(stream, signals);
  }
};

}  // namespace

TEST_CASE("a rank whose host has no memory for a call ends the calls of all") {
  run_threads(3, [](auto& comm) {
    device_of_full_host device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 10, 1);
    barrier(comm);
    device.full = comm.rank() == 1;
    error const e = error_of([&] {
      all_reduce(ranks, data, sum{}, {.timeout = 20s});
      ranks.work().wait();
    });
    expect_error(e, error_code::system, "rank 1 cannot launch its part of a call: std::bad_alloc");
  });
}

TEST_CASE("memory that one rank cannot allocate or share no rank keeps") {
  for (auto const& [refused, words] :
       {std::pair{stand_in_refusals{.memory = true}, "rank 1 cannot share its device: the stand-in refuses memory"},
        std::pair{stand_in_refusals{.opening = true},
                  "rank 1 cannot share its device: the stand-in refuses to open memory of another process"}})
    run_threads(3, [&](auto& comm) {
      sharing_stand_in device(comm.rank());
      cuda_ipc ranks(comm, device, 4096);
      std::size_t const before = device.allocated();
      if (comm.rank() == 1) device.refuses = refused;
      expect_error(error_of([&] { static_cast<void>(ranks.template allocate<float>(100)); }), error_code::system,
                   words);
      device.refuses = {};
      expect(device.allocated() == before, "all have freed theirs");
      array const data = filled(device, 20000, 1);
      if (comm.rank() == 1) device.refuses.memory = refused.memory;
      if (refused.memory)
        expect_error(error_of([&] { reduce<two_shot>(ranks, data, sum{}, 0); }), error_code::system,
                     "rank 1 cannot allocate memory for a call: the stand-in refuses memory");
      device.refuses = {};
      expect(device.allocated() == before + 1, "nor does a call keep any");
      barrier(comm);
    });
}

TEST_CASE("a buffer without bytes is registered, unless others have some") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    array const data = filled(device, 10, 1);
    cuda_ipc ranks(comm, device, 4096);
    ranks.register_buffer(std::span<float>());
    std::span<float> const mine(data.data(), comm.rank() == 0 ? 0u : 10u);
    expect_error(error_of([&] { ranks.register_buffer(mine); }), error_code::bad_argument,
                 "rank 0 registers 0 bytes, rank 1 registers 40");
    expect_error(error_of([&] { static_cast<void>(ranks.template allocate<float>(mine.size())); }),
                 error_code::bad_argument, "rank 0 registers 0 bytes, rank 1 registers 40");
    all_reduce(ranks, data);
    ranks.work().wait();
    expect(all_are(device, data, 2), "and all goes on");
  });
}

TEST_CASE("arenas of different sizes are refused") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    std::size_t const bytes = comm.rank() == 0 ? 4096 : 8192;
    expect_error(error_of([&] { cuda_ipc(comm, device, bytes); }), error_code::bad_argument,
                 "rank 0 asks for 4096 bytes of a device, rank 1 for 8192");
  });
}

TEST_CASE("ranks that disagree all hear what was called") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 100, 1), out = filled(device, 100, 7);
    error const e = error_of([&] {
      if (comm.rank() == 2) all_reduce(ranks, data, out, tutti::max{});
      else all_reduce(ranks, data, out);
      ranks.work().wait();
    });
    expect_error(e, error_code::mismatch, "all_reduce of 100 float with sum (one_shot)");
    expect_error(e, error_code::mismatch, "all_reduce of 100 float with max (one_shot)");
    expect(all_are(device, out, 7), "nothing was written");
    expect_error(error_of([&] { barrier(ranks); }), error_code::mismatch, "ranks disagree");
  });
}

TEST_CASE("a late rank does not make ranks disagree, whatever calls of other sizes came before") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const four = filled(device, 4, 1), five = filled(device, 5, 1), out = filled(device, 5, 7);
    all_reduce(ranks, four);
    if (comm.rank() == 2) std::this_thread::sleep_for(300ms);
    reduce(ranks, five, out);
    ranks.work().wait();
    expect(all_are(device, out, comm.is_main() ? 3 : 7), "the sum at the root");
  });
}

TEST_CASE("ranks that replay different graphs hear what is in them") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 100, 1), out = filled(device, 200, 7);
    stand_in_stream stream;
    auto const captured = [&](auto const& call) {
      stream.begin_capture();
      call();
      return stream.end_capture();
    };
    auto const sums =
        captured([&] { all_reduce(ranks, data, std::span(out.data(), 100), sum{}, {.stream = &stream}); });
    auto const blocks = captured([&] { all_gather(ranks, data, out, {.stream = &stream}); });
    stand_in_stream::launch(comm.rank() == 0 ? sums : blocks);
    error const e = error_of([&] { ranks.work(&stream).wait(); });
    expect_error(e, error_code::mismatch, "all_reduce of 100 float with sum (one_shot)");
    expect_error(e, error_code::mismatch, "all_gather of 100 float (one_shot)");
    device.wait(&stream, deadline::after(10s));
    expect(all_are(device, out, 7), "nothing was written");
  });
}

TEST_CASE("different roots, and a block of another size than its receiver expects") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    array const data = filled(device, 100, 1), all = filled(device, 200, 7);
    {
      cuda_ipc ranks(comm, device, 4096);
      expect_error(error_of([&] {
                     gather(ranks, data, all, comm.rank());
                     ranks.work().wait();
                   }),
                   error_code::mismatch, "root 1");
    }
    cuda_ipc ranks(comm, device, 4096);
    std::vector<std::size_t> const counts{100, 50};
    expect_error(error_of([&] {
                   gather_v(ranks, data, all, counts, {}, 0);
                   if (comm.rank() == 1) barrier(ranks);  // it has sent all its data
                   ranks.work().wait();
                 }),
                 error_code::mismatch, "gather_v of float, root 0");
  });
}

TEST_CASE("a rank that does not come is named") {
  run_threads(3, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 100, 1), out = filled(device, 100, 7);
    barrier(ranks);
    if (comm.rank() == 1) {
      error_of([&] {
        for (;; std::this_thread::sleep_for(1ms)) ranks.work().wait();
      });
    } else {
      all_reduce(ranks, data, out, sum{}, {.timeout = 2s});
      error const e = error_of([&] { ranks.work().wait(); });
      expect_error(e, error_code::timeout, "all_reduce of 100 float with sum (one_shot) did not complete within 2 s");
      expect_error(e, error_code::timeout, "rank 1 has not arrived: it is at or after call #1, barrier");
      expect(e.peer() == 1, "who is missing");
    }
    expect(all_are(device, out, 7), "nothing was written");
  });
}

// On each rank the calls of two objects wait for each other on one stream, as they do in a queue of the hardware that
// several streams share.
TEST_CASE("two objects whose calls have different orders are named") {
  for (bool const own_device : {false, true}) {
    CAPTURE(own_device);
    run_threads(2, [&](auto& comm) {
      sharing_stand_in const device(own_device ? comm.rank() : 0);
      cuda_ipc one(comm, device, 4096), two(comm, device, 4096);
      array const data = filled(device, 1000, 1), out = filled(device, 1000, 7);
      auto const sum_by = [&](auto& ranks) {
        if (own_device) all_reduce<ring>(ranks, data, out, sum{}, {.timeout = 2s});
        else all_reduce(ranks, data, out, sum{}, {.timeout = 2s});
      };
      error const e = error_of([&] {
        sum_by(comm.rank() == 0 ? one : two);
        sum_by(comm.rank() == 0 ? two : one);
        (comm.rank() == 0 ? one : two).work().wait();
      });
      std::vector<int> failed{e.happened() == "nothing was thrown" ? 0 : 1};
      bool const here = failed[0] != 0;
      all_reduce(comm, failed);
      expect(failed[0] > 0, "a call that cannot end ends with an error");
      if (!here) return;  // once one call has failed, the other goes on
      std::string const other = std::to_string(1 - comm.rank());
      expect_error(e, error_code::timeout, "all_reduce of 1000 float with sum");
      expect_error(e, error_code::timeout, "rank " + other + " has made this call, but its device is not in it");
      expect_error(e, error_code::timeout, "the calls of several must have the same order on all ranks");
      expect(e.peer() == 1 - comm.rank(), "who holds it up");
    });
  }
}

namespace {

// A sum that a stream does not finish until it is released.
struct held_sum {
  static inline std::atomic<bool> may_go_on{false};

  float operator()(float a, float b) const {
    while (!may_go_on) std::this_thread::yield();
    return a + b;
  }
};

}  // namespace

TEST_CASE("memory that the kernel of a rank that has given up may still read is kept") {
  ::setenv("TUTTI_TIMEOUT", "2", 1);
  std::atomic<bool> given_up{false};
  run_threads(2, [&](auto& comm) {
    sharing_stand_in const device;
    array const data = filled(device, 1000, 1), out = filled(device, 1000, 7);
    {
      cuda_ipc ranks(comm, device, 4096);
      reduce(ranks, data, out, held_sum{}, 0);
      while (comm.rank() == 1 && !given_up) std::this_thread::yield();
    }
    (comm.rank() == 0 ? given_up : held_sum::may_go_on) = true;
    if (comm.rank() == 0) expect(all_are(device, out, 2), "it has read the other's");
  });
  ::unsetenv("TUTTI_TIMEOUT");
}

TEST_CASE("work waits for a while") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 100, 1);
    if (comm.rank() == 1) barrier(comm);
    all_reduce(ranks, data);
    auto sum_of_all = ranks.work();
    if (comm.rank() == 0) {
      expect(!sum_of_all.wait(20ms), "it goes on");
      barrier(comm);
    }
    sum_of_all.wait();
    expect(all_are(device, data, 2), "and ends");
  });
}

TEST_CASE("a rank that leaves while others call") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device;
    cuda_ipc ranks(comm, device, 4096);
    array const data = filled(device, 100, 1);
    all_reduce(ranks, data);
    ranks.work().wait();
    if (comm.rank() == 1) return;
    all_reduce(ranks, data);
    expect_error(error_of([&] { ranks.work().wait(); }), error_code::rank_left, "rank 1 left");
    expect(all_are(device, data, 2), "the call before was right, and this one has not changed that");
  });
}

TEST_CASE("what cannot be had is refused before anything is launched") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in device;
    cuda_ipc ranks(comm, device, 256);
    array const data = filled(device, 100, 1), copy = filled(device, 100, 7);
    for (auto const& [memory, buffer] : {std::pair{data.data(), "input"}, std::pair{copy.data(), "output"}}) {
      device.forbidden = memory;
      std::string const what = join({"the ", buffer, " of all_reduce cannot be accessed by 1 stand-ins"});
      expect_error(error_of([&] { all_reduce(ranks, data, copy); }), error_code::bad_argument, what);
    }
    device.forbidden = nullptr;
    expect_error(error_of([&] { all_reduce(ranks, data, sum{}, {.algorithm = algorithm_id::ring}); }),
                 error_code::bad_argument, "ring does not serve all_reduce among processes on devices");
    expect_error(error_of([&] { broadcast(ranks, data, 2); }), error_code::bad_argument, "root 2 is not a rank");
    expect_error(error_of([&] { all_gather(ranks, data, data); }), error_code::bad_argument,
                 "the output of all_gather has 100 elements, but");
    struct large {
      char bytes[300];
    };
    device_array<sharing_stand_in, large> const one(device, 1);
    expect_error(error_of([&] { all_reduce(ranks, one, [](large const& a, large const&) { return a; }); }),
                 error_code::bad_argument, "an element of 300 bytes does not fit");
    all_reduce(ranks, data);
    ranks.work().wait();
    expect(all_are(device, data, 2), "and all goes on");
  });
}
