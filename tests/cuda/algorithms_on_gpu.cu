// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Algorithms and packets among virtual ranks on a real GPU, whose blocks wait for each other, compared with the host.
// Exits with 77 without a GPU. `algorithms_on_gpu quick` is for sanitizers, which are slow; `algorithms_on_gpu few` checks
// everything with few elements, for the PTX machine, which is slower.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_algorithms.hpp"
#include "support/device_counters.hpp"
#include "tutti/cuda.cuh"

namespace tutti::testing {

// A GPU on which kernels that wait for each other cannot be launched.
struct refusing_gpu : cuda_device {
  explicit refusing_gpu(int index) : cuda_device(index) {}
  bool refuses = false;

  template <class Work>
  void launch_together(cudaStream_t stream, int blocks, Work const& work) const {
    if (refuses) throw error({.code = error_code::system, .what = "refused", .way_out = ""});
    cuda_device::launch_together(stream, blocks, work);
  }
};

}  // namespace tutti::testing

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

std::vector<std::size_t> counts{1, 1000};
std::vector<int> rank_counts{2, 3, 4, 8};
device_options<cuda_device> const staged{.protocol = protocol::staged};

template <class Check>
void on_rank_counts(cuda_device const& gpu, std::string const& what, Check const& check) {
  for (int const p : rank_counts) {
    device_channels channels(gpu, p);
    int wrong = 0;
    for (std::size_t const n : counts) wrong += check(cuda_local(channels), n);
    report(what + " on " + std::to_string(p) + " ranks", wrong == 0);
  }
}
// By one block, whose threads have several packs of each chunk in flight.
template <class T, class Check>
void on_one_block(cuda_device const& gpu, std::string const& what, Check const& check) {
  device_channels channels(gpu, 2, {.blocks = 1});
  report(what + " by one block", check(cuda_local(channels), 2 * 15'000 / sizeof(T) + 1) == 0);
}
template <class T, class Check>
void on_ranks_and_blocks(cuda_device const& gpu, std::string const& what, Check const& check) {
  on_rank_counts(gpu, what, check);
  on_one_block<T>(gpu, what, check);
}

template <class Algorithm>
void check_algorithm(cuda_device const& gpu) {
  on_ranks_and_blocks<float>(gpu, std::string(Algorithm::name), [](auto const& ranks, std::size_t n) {
    return wrong_reductions<Algorithm, float>(ranks, n, sum{}, staged);
  });
}

template <class T, class Op>
void check_packets(cuda_device const& gpu, Op const& op) {
  on_rank_counts(gpu, "packets of " + std::string(type_name<T>()), [&](auto const& ranks, std::size_t n) {
    int const p = ranks.size();
    auto const few = n < 500 ? n : 500;
    return different(result_on_device<T>(ranks, p, few, p, few,
                                         [&](auto& r, auto& in, auto& out) {
                                           all_reduce<one_shot>(r, in, out, op, {.protocol = protocol::packet});
                                         }),
                     on_host<T>(p, few, few, [&](auto& comm, auto& in, auto& out) {
                       all_reduce(comm, in, out, op, {.algorithm = algorithm_id::one_shot});
                     }));
  });
}

// Flags and counts continue across launches, also of graphs.
void check_graphs(cuda_device const& gpu) {
  auto const soon = [] { return deadline::after(std::chrono::seconds{60}); };
  cudaStream_t const stream = gpu.make_stream();
  device_channels channels(gpu, 2);
  cuda_local const ranks(channels);
  auto data = to_device(gpu, ranks_values<float>(2, std::vector<float>(1000, 1.0f)));
  auto const both = [&] {
    all_reduce<ring>(ranks, data, data, sum{}, {.stream = stream, .protocol = protocol::staged});
    all_reduce<one_shot>(ranks, data, data, sum{}, {.stream = stream, .protocol = protocol::packet});
  };
  both();
  gpu.wait(stream, soon());
  captured const graph(stream, both);
  graph.replay(5);
  both();
  gpu.wait(stream, soon());
  report("a ring and packets in a graph, launched five times", to_host(gpu, data)[1][777] == 16384.0f);

  device_stream<cuda_device> const other(gpu);
  device_event<cuda_device> const mark(gpu);
  mark.record(other.get());
  auto const both_and_poll = [&] {
    both();
    gpu.wait(other.get(), soon());
    static_cast<void>(mark.reached());
    std::thread([&] {
      device_array<cuda_device, float> const array(gpu, 100);
      message_memory<cuda_device> const pinned(gpu, 100, true);
      std::vector<std::byte> host(10000);
      if (gpu.expose(host.data(), host.size()) != nullptr) gpu.hide(host.data());
    }).join();
  };
  captured const strict(stream, both_and_poll, cudaStreamCaptureModeGlobal);
  strict.replay();
  gpu.wait(stream, soon());
  report("polling and allocating during a capture in global mode", to_host(gpu, data)[1][777] == 65536.0f);

  device_channels fresh(gpu, 2);
  cuda_local const first(fresh);
  captured const allocating(
      stream, [&] { all_reduce<two_shot>(first, data, data, sum{}, {.stream = stream, .protocol = protocol::staged}); },
      cudaStreamCaptureModeGlobal);
  allocating.replay();
  gpu.wait(stream, soon());
  report("a captured call that allocates memory", to_host(gpu, data)[1][777] == 131072.0f);
  gpu.end_stream(stream);
}

// By two algorithms in turn, which use the same channels.
void check_many_calls(cuda_device const& gpu, int calls) {
  device_channels channels(gpu, 4);
  cuda_local const ranks(channels);
  ranks_values<float> const ones(4, std::vector<float>(5000, 1.0f));
  auto data = to_device(gpu, ones);
  float expected = 1;
  for (int i = 0; i < calls; ++i, expected *= 4) {
    if (i % 50 == 0) {  // before the sums are too large
      for (std::size_t r = 0; r < data.size(); ++r)
        gpu.copy({}, data[r].data(), ones[r].data(), ones[r].size() * sizeof(float));
      expected = 1;
    }
    if (i % 2 == 0) all_reduce<ring>(ranks, data, data, sum{}, staged);
    else all_reduce<two_shot>(ranks, data, data, sum{}, staged);
  }
  gpu.wait({}, deadline::after(std::chrono::seconds{60}));
  bool good = true;
  for (auto const& x : to_host(gpu, data)) good = good && x == std::vector<float>(5000, expected);
  report(std::to_string(calls) + " calls", good);
}

// Ranks on all GPUs of the machine.
void check_several_devices(std::size_t n) {
  std::vector<cuda_device> const gpus = cuda_devices();
  if (gpus.size() == 1) return (void)std::printf("skipped: calls on several GPUs, because there is one\n");
  std::string const on = " on " + std::to_string(gpus.size()) + " GPUs";
  device_channels channels(gpus, 4, {.slots = 2, .slice = 1024});  // so small that slots are used again
  cuda_local const ranks(channels);
  auto const reduced = [&](algorithm_id by) {
    return on_host<float>(
        4, n, n, [&](auto& comm, auto& in, auto& out) { all_reduce(comm, in, out, sum{}, {.algorithm = by}); });
  };
  auto const check = [&](std::string const& what, algorithm_id by, auto const& call) {
    report(what + on, different(result_on_device<float>(ranks, 4, n, 4, n, call), reduced(by)) == 0);
  };
  check("jobs", algorithm_id::one_shot, [](auto& r, auto& in, auto& out) { all_reduce(r, in, out); });
  check("ring", algorithm_id::ring, [](auto& r, auto& in, auto& out) { all_reduce<ring>(r, in, out); });
  check("double_binary_tree", algorithm_id::double_binary_tree,
        [](auto& r, auto& in, auto& out) { all_reduce<double_binary_tree>(r, in, out); });
  auto const dealt = [](auto& r, auto& in, auto& out) { all_to_all(r, in, out); };
  report("all_to_all" + on, different(result_on_device<std::uint32_t>(ranks, 4, 4000, 4, 4000, dealt),
                                      result_on_device<std::uint32_t>(gpus[0], 4, 4, 4000, 4, 4000, dealt)) == 0);
  count_packets_from(channels, beyond_32_bits - 1);
  auto few = to_device(ranks, ranks_values<float>(4, std::vector<float>(100, 1.0f)));
  for (int i = 0; i < 5; ++i) all_reduce<one_shot>(ranks, few, few, sum{}, {.protocol = protocol::packet});
  report("packets, from call 2^32 on," + on, to_host(gpus[0], few)[3][99] == 1024.0f);

  gpus[0].wait({}, deadline::after(std::chrono::seconds{60}));
  device_channels others(gpus, 4);  // for another stream
  cuda_local const on_stream(others);
  cudaStream_t const stream = gpus[0].make_stream();
  auto data = to_device(ranks, ranks_values<float>(4, std::vector<float>(n, 1.0f)));
  auto const both = [&] {
    all_reduce(on_stream, data, data, sum{}, {.stream = stream});
    all_reduce<ring>(on_stream, data, data, sum{}, {.stream = stream});
  };
  both();
  gpus[0].wait(stream, deadline::after(std::chrono::seconds{60}));
  captured const graph(stream, both);
  graph.replay(3);
  gpus[0].wait(stream, deadline::after(std::chrono::seconds{60}));
  report("a graph" + on, to_host(gpus[0], data)[3][n - 1] == 65536.0f);
  gpus[0].end_stream(stream);
}

// Kernels on one GPU do not wait for those of another that could not be launched.
void check_refused_launch() {
  if (cuda_device_count() == 1) return (void)std::printf("skipped: launches that fail on one of several GPUs\n");
  std::vector<refusing_gpu> gpus;
  for (int k = 0; k < 2; ++k) gpus.emplace_back(k);
  auto const check = [&](std::string const& what, auto const& call) {
    device_channels channels(gpus, 4);
    cuda_local const ranks(channels);
    auto data = to_device(ranks, ranks_values<float>(4, std::vector<float>(500, 1.0f)));
    auto lost = to_device(ranks, ranks_values<float>(4, std::vector<float>(500, 1.0f)));
    call(ranks, data);
    gpus[1].refuses = true;
    std::string said;
    try {
      call(ranks, lost);
    } catch (tutti::error const& e) {
      said = e.happened();
    }
    gpus[1].refuses = false;
    gpus[0].wait({}, deadline::after(std::chrono::seconds{60}));
    report(what + " ends if it is not launched on all GPUs", said == "refused");
    report(what + " before that is complete", to_host(gpus[0], data)[3][499] == 4.0f);
  };
  check("a ring", [](auto const& r, auto& x) { all_reduce<ring>(r, x, x, sum{}, {.protocol = protocol::staged}); });
  check("a call by packets",
        [](auto const& r, auto& x) { all_reduce<one_shot>(r, x, x, sum{}, {.protocol = protocol::packet}); });
}

// A GPU may be able to access pageable memory; the machine's cannot.
void check_memory(std::vector<cuda_device> const& gpus) {
  auto const said_of = [](auto const& call) {
    std::string said;
    try {
      call();
    } catch (tutti::error const& e) {
      said = e.happened();
    }
    return said;
  };
  cuda_local const one(gpus[0], 2);
  std::vector<std::vector<float>> host(2, std::vector<float>(100, 1.0f));
  std::string said = said_of([&] { all_reduce(one, host, host); });
  gpus[0].wait({}, deadline::after(std::chrono::seconds{60}));
  report("pageable memory is refused, or combined",
         said == "the input of all_reduce is pageable host memory, which GPU 0 cannot access" ||
             (said.empty() && host[1][99] == 2.0f));

  if (gpus.size() == 1) return (void)std::printf("skipped: memory of other GPUs, because there is one\n");
  auto data = to_device(gpus[1], ranks_values<float>(2, std::vector<float>(100, 1.0f)));
  said = said_of([&] { all_reduce(one, data, data); });
  report("memory of a GPU that does not take part is refused",
         said == "the input of all_reduce is memory of GPU 1, which these ranks do not use");

  cuda_local const both(gpus, 2);
  void* memory = nullptr;
  cudaSetDevice(gpus[1].index());
  cudaMallocAsync(&memory, 400, nullptr);
  gpus[1].wait({}, deadline::after(std::chrono::seconds{60}));
  std::vector<std::span<float>> pooled(2, std::span(static_cast<float*>(memory), 100));
  std::vector<std::span<float>> out;
  for (auto& x : data) out.push_back(std::span(x.data(), 100));
  said = said_of([&] { all_reduce(both, pooled, out); });
  report("memory of a pool that another GPU has not opened is refused",
         said == "the input of all_reduce is memory of a pool of GPU 1, to which GPU 0 has no access");
  all_reduce(both, data, data);
  gpus[0].wait({}, deadline::after(std::chrono::seconds{60}));
  report("and memory from cudaMalloc is combined", to_host(gpus[1], data)[0][99] == 2.0f);
  cudaFreeAsync(memory, nullptr);
  cudaSetDevice(gpus[0].index());
}

void check_errors(cuda_device const& gpu) {
  std::string said;
  try {
    gpu.launch_together({}, 1 << 20, no_work_together{});
  } catch (tutti::error const& e) {
    said = e.happened();
  }
  report("more blocks than run at once are refused", said.find("1048576 blocks cannot run at once") == 0);

  device_array<cuda_device, float> const memory(gpu, 1);
  static_cast<void>(cudaSetDevice(1000));
  gpu.close(gpu.share(memory.data()), memory.data());
  report("an error of the program stays its last one", cudaGetLastError() == cudaErrorInvalidDevice);

  int const count = cuda_device_count();
  report("ranks of a node take turns on its GPUs",
         cuda_device_of(0).index() == 0 && cuda_device_of(2 * count - 1).index() == count - 1);

  int on_stack = 0;
  gpu.release(&on_stack);
  report("what cannot be released leaves no error to the program", cudaGetLastError() == cudaSuccess);

  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  said.clear();
  try {
    gpu.reach(gpu);
  } catch (tutti::error const& e) {
    said = e.happened();
  }
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  report("kernels that wait for each other need launches that do not block", said.find("CUDA_LAUNCH_BLOCKING") == 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (cuda_device_count() == 0) {
    std::printf("skipped: there is no GPU\n");
    return 77;
  }
  try {
    std::string_view const how = argc > 1 ? argv[1] : "";
    bool const quick = how == "quick", few = how == "few";
    if (!quick && !few) counts.insert(counts.end(), {0, 7, 4099, 300007});
    if (few) rank_counts = {2, 3, 5};
    if (!quick) check_several_devices(few ? 5003 : 100003);
    if (!quick) check_refused_launch();
    cuda_device const gpu;
    check_algorithm<two_shot>(gpu);
    check_algorithm<double_binary_tree>(gpu);
    check_algorithm<recursive_halving>(gpu);
    on_ranks_and_blocks<bfloat16>(gpu, "ring of bfloat16, mean", [](auto const& ranks, std::size_t n) {
      return wrong_reductions<ring, bfloat16>(ranks, n, mean{}, staged);
    });
    on_ranks_and_blocks<bfloat16>(gpu, "two_shot of bfloat16, mean", [](auto const& ranks, std::size_t n) {
      return wrong_all_reduce<two_shot, bfloat16>(ranks, n, mean{}, staged);
    });
    on_ranks_and_blocks<std::uint32_t>(gpu, "bruck", [](auto const& ranks, std::size_t n) {
      return wrong_movements<bruck, std::uint32_t>(ranks, n, staged);
    });
    check_packets<float>(gpu, sum{});
    check_packets<bfloat16>(gpu, premultiplied_sum{0.3f});
    check_graphs(gpu);
    if (!quick) check_many_calls(gpu, few ? 20 : 1000);
    if (!quick) check_memory(cuda_devices());
    if (!quick) check_errors(gpu);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
