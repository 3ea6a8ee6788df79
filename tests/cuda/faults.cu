// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are late, absent or gone, or that make other calls than their peers, while kernels wait for them: all ranks that
// remain get an error, their kernels end, and what a failed call must not write is as before. Ranks are processes, and threads of
// one, with a GPU each. Exits with 77 without a GPU. `faults threads` and `faults processes` run one half.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

constexpr int ranks_of_all = 3;

// The GPU of a rank, and two arrays on it: of ones, and of sevens for the result.
struct place {
  std::size_t n;
  cuda_device gpu;
  device_stream<cuda_device> stream{gpu};
  device_array<cuda_device, float> in{gpu, n}, out{gpu, n};

  place(int rank, std::size_t count) : n{count}, gpu{rank} {
    std::vector<float> const ones(n, 1), sevens(n, 7);
    gpu.copy(stream.get(), in.data(), ones.data(), n * sizeof(float));
    gpu.copy(stream.get(), out.data(), sevens.data(), n * sizeof(float));
    wait();
  }
  void wait() const { gpu.wait(stream.get(), deadline::after(60s)); }
  std::vector<float> values_of(device_array<cuda_device, float> const& array) const {
    std::vector<float> values(n);
    gpu.copy(stream.get(), values.data(), array.data(), n * sizeof(float));
    wait();
    return values;
  }
  bool result_is(float value) const { return values_of(out) == std::vector<float>(n, value); }
};

// How a call travels: by packets, through the channels of a schedule, by blocks that meet, or by words that streams wait for.
enum class way { packets, channels, meetings, words };
constexpr way all_ways[] = {way::packets, way::channels, way::meetings, way::words};
constexpr std::size_t count_for(way w) { return w == way::packets ? 99 : 5001; }
// Its result: sums of ones, or ones from everywhere.
constexpr float result_of(way w) { return w == way::words ? 1 : ranks_of_all; }

template <class Ranks>
void start(Ranks& ranks, place const& at, way w, std::chrono::nanoseconds timeout = 0ns) {
  device_options<cuda_device> how{.stream = at.stream.get(), .timeout = timeout};
  if (w == way::channels) return all_reduce<ring>(ranks, at.in, at.out, sum{}, how);
  if (w == way::words) {
    std::size_t const each = at.n / ranks_of_all;
    return all_gather_v(ranks, std::span(at.in.data(), each), at.out, std::vector(ranks_of_all, each), {}, how);
  }
  if (w == way::meetings) how.algorithm = algorithm_id::two_shot;
  all_reduce(ranks, at.in, at.out, sum{}, how);
}
// The error of a call, or of waiting for it. A rank that is slow may hear of a fault before its call.
template <class Ranks, class Call>
error fault_of(Ranks& ranks, place const& at, Call const& call) {
  return error_of([&] {
    call();
    for (int i = 0; i < 60'000; ++i, std::this_thread::sleep_for(1ms)) ranks.work(at.stream.get()).wait();
  });
}

// -- What happens in a group of three ranks.

struct late {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (way const w : all_ways) {
      place const at(comm.rank(), count_for(w));
      cuda_ipc ranks(comm, at.gpu, 64 << 10);
      for (int late = 0; late < ranks_of_all; ++late) {
        if (comm.rank() == late) std::this_thread::sleep_for(50ms);
        start(ranks, at, w);
      }
      ranks.work(at.stream.get()).wait();
      expect(at.result_is(result_of(w)), "a rank that is late changes no result");
    }
  }
};

struct absent {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (way const w : all_ways) {
      place const at(comm.rank(), count_for(w));
      cuda_ipc ranks(comm, at.gpu, 64 << 10);
      barrier(ranks, {.stream = at.stream.get()});
      ranks.work(at.stream.get()).wait();
      barrier(comm);
      error const e = fault_of(ranks, at, [&] {
        if (comm.rank() != 1) start(ranks, at, w, 1s);
      });
      expect_error(e, error_code::timeout, "rank 1 has not arrived: it is at or after call #1, barrier");
      at.wait();
      if (w != way::channels) expect(at.result_is(7), "nothing was written");
      expect_error(error_of([&] { start(ranks, at, way::channels); }), error_code::timeout, "has not arrived");
    }
  }
};

struct in_another_call {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (way const w : all_ways)
      for (way const other : all_ways) {
        place const at(comm.rank(), 99);
        cuda_ipc ranks(comm, at.gpu, 64 << 10);
        error const e = error_of([&] {
          if (comm.rank() != 2) start(ranks, at, w);
          else if (other != w) start(ranks, at, other);
          else all_reduce(ranks, at.in, at.out, tutti::max{}, {.stream = at.stream.get()});
          ranks.work(at.stream.get()).wait();
        });
        expect_error(e, error_code::mismatch, "ranks disagree");
        at.wait();
        expect(w == way::channels || other == way::channels || at.result_is(7), "nothing was written");
      }
  }
};

// Only kernels can find this.
struct in_another_graph {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (algorithm_id const by : {algorithm_id::automatic, algorithm_id::two_shot}) replay(comm, by);
  }
  template <class Comm>
  static void replay(Comm& comm, algorithm_id by) {
    place const at(comm.rank(), 100);
    cuda_ipc ranks(comm, at.gpu, 64 << 10);
    device_options<cuda_device> const how{.stream = at.stream.get(), .algorithm = by, .timeout = 1s};
    captured const sums(at.stream.get(), [&] { all_reduce(ranks, at.in, at.out, sum{}, how); });
    captured const largest(at.stream.get(), [&] { all_reduce(ranks, at.in, at.out, tutti::max{}, how); });
    barrier(comm);
    error const e = fault_of(ranks, at, [&] { (comm.rank() == 0 ? sums : largest).replay(); });
    expect_error(e, error_code::timeout, "did not complete within 1 s");
    at.wait();
    expect(at.result_is(7), "nothing was written");
  }
};

// A rank whose kernels begin when the others have given up the first of two calls. They must not contribute to the second.
struct replayed_too_late {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (way const w : {way::packets, way::meetings}) {
      place const at(comm.rank(), count_for(w));
      cuda_ipc ranks(comm, at.gpu, 64 << 10);
      device_options<cuda_device> const how{
          .stream = at.stream.get(), .algorithm = algorithm_id::one_shot, .timeout = 300ms};
      captured const twice(at.stream.get(), [&] {
        for (int i = 0; i < 2; ++i) all_reduce(ranks, at.in, sum{}, how);
      });
      barrier(comm);
      error const e = fault_of(ranks, at, [&] {
        if (comm.rank() != 1) twice.replay();
      });
      expect(e.code() == error_code::timeout, "rank 1 has not come");
      at.wait();
      barrier(comm);
      if (comm.rank() == 1) twice.replay();
      for (float const x : at.values_of(at.in)) expect(x == 1 || x == ranks_of_all, "the old value, or the right one");
    }
  }
};

struct by_another_schedule {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank(), 5000);
    cuda_ipc ranks(comm, at.gpu, 64 << 10);
    device_options<cuda_device> const how{.stream = at.stream.get(), .timeout = 1s};
    captured const one(at.stream.get(), [&] { all_reduce<ring>(ranks, at.in, at.out, sum{}, how); });
    captured const other(at.stream.get(), [&] { all_reduce<double_binary_tree>(ranks, at.in, at.out, sum{}, how); });
    barrier(comm);
    error const e = fault_of(ranks, at, [&] { (comm.rank() == 0 ? one : other).replay(); });
    expect_error(e, error_code::timeout, "did not complete within 1 s");
    at.wait();
  }
};

struct leaving {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (way const w : all_ways) {
      place const at(comm.rank(), count_for(w));
      cuda_ipc ranks(comm, at.gpu, 64 << 10);
      start(ranks, at, w);
      ranks.work(at.stream.get()).wait();
      barrier(comm);
      if (comm.rank() == 1) continue;
      error const e = fault_of(ranks, at, [&] { start(ranks, at, w); });
      expect_error(e, error_code::rank_left, "rank 1 left");
      at.wait();
      if (w != way::channels) expect(at.result_is(result_of(w)), "the call before was right");
    }
  }
};

template <class Check>
void on_processes(std::string const& what, Check const& check) {
  report_run(what + " on processes", [&] { run_local(ranks_of_all, check); });
}
template <class Check>
void on_threads(std::string const& what, Check const& check) {
  report_run(what + " on threads", [&] { run_threads(ranks_of_all, check); });
}

// Rank 1 is killed this long after it has started a call. The others hear of that, or the call was over and is right.
void check_gone(way w, std::chrono::microseconds after) {
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int* const good = static_cast<int*>(shared);
  std::string thrown;
  try {
    run_local(ranks_of_all, [&](auto& comm) {
      place const at(comm.rank(), count_for(w));
      auto const is_right = [&](error const& e) {
        if (e.code() == error_code::rank_lost && e.peer() == 1) return true;
        std::printf("rank %d: %s\n", comm.rank(), e.what());
        return false;
      };
      try {
        cuda_ipc ranks(comm, at.gpu, 64 << 10);
        error const e = error_of([&] {
          start(ranks, at, w);
          if (comm.rank() == 1) {
            std::this_thread::sleep_for(after);
            ::kill(::getpid(), SIGKILL);
          }
          ranks.work(at.stream.get()).wait();
        });
        at.wait();
        good[comm.rank()] = contains(e, "nothing was thrown") ? at.result_is(result_of(w)) : is_right(e);
      } catch (error const& e) {  // one that was slow to start
        good[comm.rank()] = is_right(e);
      }
    });
  } catch (std::exception const& e) {  // one rank was lost
    thrown = e.what();
  }
  bool const all_good = good[0] == 1 && good[2] == 1;
  std::string const by = w == way::packets    ? "packets"
                         : w == way::channels ? "channels"
                         : w == way::meetings ? "meetings"
                                              : "words";
  report("a process that is gone after " + std::to_string(after.count()) + " us, by " + by +
             (all_good ? std::string{} : ": " + thrown),
         all_good);
  ::munmap(shared, 4096);
}

// A kernel of ranks that nobody watches aborts when a wait takes too long. That ends the process's work on the GPU.
// Of two ranks, only the first has blocks. launch(gpu, channels, in, out) starts them.
template <class Launch>
void check_abort(std::string const& what, Launch const& launch) {
  pid_t const child = ::fork();
  if (child == 0) {
    std::string said;
    try {
      cuda_device const gpu;
      device_channels channels(gpu, 2, {.timeout = 1ms});
      device_array<cuda_device, float> const in(gpu, 100), out(gpu, 100);
      std::vector<float> const ones(100, 1);
      gpu.copy({}, in.data(), ones.data(), ones.size() * sizeof(float));
      launch(gpu, channels.map(), in.data(), out.data());
      gpu.wait({}, deadline::after(60s));
    } catch (std::exception const& e) {
      said = e.what();
    }
    bool const good = contains(said, "cudaErrorLaunchFailure");
    if (!good) std::printf("expected cudaErrorLaunchFailure, got: %s\n", said.c_str());
    std::fflush(stdout);
    ::_exit(!good);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  report(what, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

template <class Run>
void check_all(Run const& run) {
  run("ranks that are late", late{});
  run("a rank that is absent", absent{});
  run("ranks in different calls", in_another_call{});
  run("ranks that replay different graphs", in_another_graph{});
  run("ranks that replay different schedules", by_another_schedule{});
  run("a rank that replays two calls after the others have given up", replayed_too_late{});
  run("a rank that leaves", leaving{});
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const half = argc > 1 ? argv[1] : "";
  int const gpus = cuda_device_count_by_child();
  if (gpus == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    // Processes come first, because CUDA does not work in children of a process that has used it.
    check_abort("a kernel aborts that waits too long for a message", [](cuda_device const& gpu,
                                                                        channel_map const& channels, float const* in,
                                                                        float* out) {
      using plan = steps_plan<collective::all_reduce, schedule<ring, collective::all_reduce>, float, sum, one_device>;
      auto work = plan(channels, 0, 100, std::source_location::current()).work_of(1, sum{}, one_device{});
      work.in[0] = in, work.out[0] = out;
      gpu.launch_together({}, 1, work);
    });
    check_abort("a kernel aborts that waits too long for a packet",
                [](cuda_device const& gpu, channel_map const& channels, float const* in, float* out) {
                  packet_work<collective::all_reduce, float, sum> work{.in = {in},
                                                                       .out = {out},
                                                                       .first = 0,
                                                                       .channels = channels,
                                                                       .reach = {},
                                                                       .ranks = 2,
                                                                       .blocks = 1,
                                                                       .n = 100,
                                                                       .op = {}};
                  gpu.launch_together({}, 1, work);
                });
    if (gpus < ranks_of_all) {
      std::puts("not run: ranks with a GPU each, because there are fewer than three GPUs");
    } else {
      if (half != "threads") {
        check_all([](std::string const& what, auto const& check) { on_processes(what, check); });
        for (way const w : all_ways)
          for (auto const after : {0us, 3000us, 30'000us}) check_gone(w, after);
      }
      if (half != "processes") check_all([](std::string const& what, auto const& check) { on_threads(what, check); });
    }
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
