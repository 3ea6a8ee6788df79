// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of a program that communicate through a window: of processes with a GPU each, and of virtual ranks on one GPU and on
// several. Also ranks that do not come, or are gone. Exits with 77 without a GPU. `window few` is for the PTX machine.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_windows.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"
#include "tutti/window.cuh"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

bool few = false;  // elements and calls

template <class Kernel>
__global__ void run_kernel(__grid_constant__ Kernel const kernel) {
  kernel.run(this_block());
}
struct launch_on_gpu {
  int threads = 256;

  template <class Kernel>
  void operator()(cuda_device const& gpu, cudaStream_t stream, int blocks, Kernel const& kernel) const {
    launch_together(gpu, stream, blocks, threads, run_kernel<Kernel>, kernel);
  }
};
launch_on_gpu how_to_launch() { return {few ? 64 : 256}; }

// Aligned and not, by one block and by several.
template <class Ranks>
std::string wrong_among(Ranks const& ranks) {
  struct size {
    std::size_t n, at;
    int blocks;
  };
  std::vector<size> const sizes =
      few ? std::vector<size>{{1001, 0, 1}, {101, 3, 2}} : std::vector<size>{{1, 0, 1}, {4099, 3, 2}, {1 << 20, 0, 8}};
  std::string wrong;
  for (auto const& [n, at, blocks] : sizes)
    if (!passes_on(ranks, n, at, blocks)) wrong += join({", puts of ", n, " elements at ", at});
  if (!shares_in_block(ranks, few ? 100 : 4096)) wrong += ", elements that threads of a block share";
  if (!adds_all(ranks, few ? 100 : 100'000, few ? 2 : 8, few ? 3 : 50, few ? 2 : 20)) wrong += ", barriers";
  if (!adds_packets(ranks, few ? 70 : 1000, few ? 4 : 100)) wrong += ", packets";
  if (!deals_packets(ranks)) wrong += ", packets of 8 bytes";
  if (!counts_on(ranks)) wrong += ", counters beyond 2^32";
  return wrong;
}

void check_virtual_ranks(std::vector<cuda_device> const& gpus, int ranks) {
  std::string wrong;
  auto const check = [&](auto const& local) {
    virtual_ranks const all(local, how_to_launch());
    wrong = wrong_among(all);
    auto const way = few ? miss_one::by_barrier : miss_one::by_exchange;
    bool const named = names_absent(all, way, 1, 50ms, [](auto const& w) {
      error const e = error_of([&] { w.wait(); });
      return contains(e, "waited 0.05 s in vain for rank 1") && e.code() == error_code::timeout && e.peer() == 1;
    });
    if (!named) wrong += ", a rank that does not come";
  };
  if (gpus.size() == 1) check(cuda_local(gpus[0], ranks));
  else check(cuda_local(gpus, ranks));
  report(join({"windows of ", ranks, " virtual ranks on ", gpus.size(), " GPUs", wrong}), wrong.empty());
}

// A captured launch continues to count when it is replayed.
void check_graph(cuda_device const& gpu) {
  cuda_local const local(gpu, 2);
  virtual_ranks const ranks(local, how_to_launch());
  int const n = 20, turns = 2;
  arrays_of_own<virtual_ranks<cuda_device, one_device, launch_on_gpu>> const arrays(ranks, n * turns);
  auto const w = ranks.open(2 * n, {.blocks = 1, .packets = n});
  device_stream<cuda_device> const stream(gpu);
  captured const graph(stream.get(), [&] {
    using packets = window_kernel<add_packets>;
    how_to_launch()(gpu, stream.get(), 2, packets{w.on_device(), 0, 1, {arrays.of(), n, turns}});
  });
  graph.replay(3);
  w.wait(stream.get());
  report("a kernel that exchanges packets in a graph, launched three times",
         arrays.outputs_are([&](int, std::size_t i) {
           int const turn = static_cast<int>(i) / n;
           return static_cast<int>(i) % n < add_packets::count(turn, n) ? sum_of_values(2, i) : -1.0f;
         }));
}

void check_refusals(cuda_device const& gpu) {
  cuda_local const local(gpu, 2);
  virtual_ranks const ranks(local, how_to_launch());
  bool good = true;
  for (auto const& [way, words] : refusals_of_misuse) {
    auto const w = ranks.open(8, {.blocks = 1, .packets = 4});
    ranks.run(w, way == misuse::of_block ? 2 : 1, misuse{way});
    error const e = error_of([&] { w.wait(); });
    good = good && e.code() == error_code::bad_argument && contains(e, words);
  }
  report("ranks, blocks, packets and elements that a window does not have are refused", good);
  auto const w = ranks.open(8, {.blocks = 1, .packets = 4});
  error const e = error_of([&] { how_to_launch()(gpu, {}, 1 << 20, window_kernel<misuse>{w.on_device(), 0, 1, {}}); });
  report("more blocks than run at once are refused", contains(e, "1048576 blocks of "));
}

// -- Processes.

constexpr int ranks_of_all = 3;

struct through_windows {
  template <class Comm>
  void operator()(Comm& comm) const {
    cuda_device const gpu(comm.rank());
    cuda_ipc ranks(comm, gpu, 64 << 10);
    std::string const wrong = wrong_among(own_rank(comm, ranks, how_to_launch()));
    expect(wrong.empty(), "wrong" + wrong);
  }
};

// A kernel of rank 1 does nothing.
struct missing_one {
  template <class Comm>
  void operator()(Comm& comm) const {
    for (auto const way : {miss_one::by_wait, miss_one::by_barrier, miss_one::by_exchange}) {
      cuda_device const gpu(comm.rank());
      cuda_ipc ranks(comm, gpu, 64 << 10);
      bool const heard = names_absent(own_rank(comm, ranks, how_to_launch()), way, 1, 300ms, [](auto const& w) {
        error const e = error_of([&] {
          for (int i = 0; i < 60'000; ++i, std::this_thread::sleep_for(1ms)) w.wait();
        });
        expect_error(e, error_code::timeout, "waited 0.3 s in vain for rank 1, which is before its first call");
        return true;
      });
      expect(heard, "the kernels heard of it");
    }
  }
};

struct sharing_a_gpu {
  template <class Comm>
  void operator()(Comm& comm) const {
    cuda_device const gpu;
    cuda_ipc ranks(comm, gpu, 64 << 10);
    expect_error(error_of([&] { static_cast<void>(open_window<float>(ranks, 1)); }), error_code::bad_argument,
                 "processes that share a device");
  }
};

template <class Check>
void on_processes(std::string const& what, Check const& check) {
  report_run(what, [&] { run_local(ranks_of_all, check); });
}

// Rank 1 is killed, and the kernels of the others, which would wait for minutes, end.
void check_gone() {
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int* const good = static_cast<int*>(shared);
  try {
    run_local(ranks_of_all, [&](auto& comm) {
      cuda_device const gpu(comm.rank());
      cuda_ipc ranks(comm, gpu, 64 << 10);
      own_rank const own(comm, ranks, how_to_launch());
      bool const heard = names_absent(own, miss_one::by_barrier, 1, 5min, [&](auto const& w) {
        if (comm.rank() == 1) ::kill(::getpid(), SIGKILL);
        error const e = error_of([&] { w.wait(); });
        return e.code() == error_code::rank_lost && e.peer() == 1;
      });
      good[comm.rank()] = heard;
    });
  } catch (error const&) {  // one rank was lost
  }
  report("kernels that wait for a process which is gone", good[0] == 1 && good[2] == 1);
  ::munmap(shared, 4096);
}

}  // namespace

int main(int argc, char** argv) {
  few = argc > 1 && std::string_view(argv[1]) == "few";
  int const gpus = cuda_device_count_by_child();
  if (gpus == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    // Processes come first, because CUDA does not work in children of a process that has used it.
    on_processes("a window is refused to processes that share a GPU", sharing_a_gpu{});
    if (gpus < ranks_of_all) {
      std::puts("not run: windows of processes, because there are fewer than three GPUs");
    } else {
      on_processes("windows of processes", through_windows{});
      on_processes("a process whose kernel does not come is named", missing_one{});
      check_gone();
    }
    std::vector<cuda_device> const all = cuda_devices();
    check_virtual_ranks({all[0]}, 2);
    check_virtual_ranks({all[0]}, few ? 3 : 8);
    if (all.size() > 1) check_virtual_ranks(all, few ? 3 : 8);
    check_graph(all[0]);
    check_refusals(all[0]);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
