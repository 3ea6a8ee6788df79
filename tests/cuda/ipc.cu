// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that share one GPU, or have one each if the machine has enough: collectives among them, compared with those
// of the host, graphs, registered buffers, named algorithms, and faults. Exits with 77 without a GPU. Each process
// creates its own context, so nothing calls CUDA before the fork. `ipc few` is for the PTX machine: three processes, few
// elements.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "cuda/captured.cuh"
#include "support/device_conformance.hpp"
#include "support/gpu_count.cuh"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

int failed = 0;
bool few = false;  // elements and calls

// Checks on all ranks, reported by one.
template <class Comm>
void report(Comm& comm, std::string const& what, int wrong) {
  std::vector<int> all{wrong};
  all_reduce(comm, all);
  if (comm.is_main())
    std::printf("%-6s %s on %d processes\n", all[0] == 0 ? "ok" : "FAILED", what.c_str(), comm.size());
  std::fflush(stdout);
  failed += all[0] != 0;
}

class stream_of_gpu {
 public:
  explicit stream_of_gpu(cuda_device const& gpu) {
    detail::current_device const here(gpu.index());
    detail::expect_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  stream_of_gpu(stream_of_gpu const&) = delete;
  stream_of_gpu& operator=(stream_of_gpu const&) = delete;
  ~stream_of_gpu() { static_cast<void>(cudaStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class Ranks>
bool all_are(Ranks& ranks, float const* data, std::size_t n, float value, cudaStream_t stream) {
  std::vector<float> values(n);
  ranks.on().copy(stream, values.data(), data, n * sizeof(float));
  ranks.on().wait(stream, deadline::after(30s));
  return values == std::vector<float>(n, value);
}
template <class Ranks>
void fill(Ranks& ranks, float* data, std::size_t n, float value, cudaStream_t stream) {
  std::vector<float> const values(n, value);
  ranks.on().copy(stream, data, values.data(), n * sizeof(float));
  ranks.on().wait(stream, deadline::after(30s));
}

template <class Check>
int wrong(Check const& check) {
  try {
    check();
    return 0;
  } catch (std::exception const& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}

template <class Ranks, class Comm>
void check_collectives(Ranks& ranks, Comm& comm, cudaStream_t stream, std::vector<std::size_t> const& counts,
                       std::string const& arena) {
  for (std::size_t const n : counts) {
    std::string const of = " of " + std::to_string(n) + " elements" + arena;
    report(comm, "reductions" + of, wrong([&] { check_reductions_of<float>(ranks, comm, n, sum{}, stream); }));
    report(comm, "moves" + of, wrong([&] { check_movement_of<float>(ranks, comm, n, stream); }));
  }
  report(comm, "reductions that are not commutative" + arena,
         wrong([&] { check_reductions_of<affine>(ranks, comm, few ? 700 : 5000, compose{}, stream); }));
}

template <class Ranks, class Comm>
void check_graph(Ranks& ranks, Comm& comm, cudaStream_t stream) {
  std::size_t const n = 10000;
  auto const data = ranks.template allocate<float>(n), out = ranks.template allocate<float>(n);
  fill(ranks, data.data(), n, 1, stream);
  captured const graph(stream, [&] {
    all_reduce(ranks, data, out, sum{}, {.stream = stream, .symmetric = true});
    all_reduce(ranks, out, data, sum{}, {.stream = stream, .algorithm = algorithm_id::two_shot, .symmetric = true});
  });
  graph.replay(3);
  auto const expected = static_cast<float>(std::pow(comm.size(), 6));
  ranks.work(stream).wait();
  report(comm, "two calls in a graph, which is launched three times",
         !all_are(ranks, data.data(), n, expected, stream));
  all_reduce(ranks, data, sum{}, {.stream = stream});
  report(comm, "a call after it", !all_are(ranks, data.data(), n, expected * static_cast<float>(comm.size()), stream));
}

template <class Ranks, class Comm>
void check_many(Ranks& ranks, Comm& comm) {
  stream_of_gpu const one(ranks.on()), two(ranks.on());
  std::size_t const n = 3000;
  device_array<cuda_device, float> const data(ranks.on(), n);
  fill(ranks, data.data(), n, 1, one);
  for (int i = 0; i < (few ? 30 : 300); ++i) all_reduce(ranks, data, tutti::max{}, {.stream = i % 2 == 0 ? one : two});
  all_reduce(ranks, data, sum{}, {.stream = one});
  report(comm, "many calls in flight on two streams",
         !all_are(ranks, data.data(), n, static_cast<float>(comm.size()), one));
}

template <class Comm>
void check_late_rank(cuda_device const& gpu, Comm& comm) {
  cuda_ipc ranks(comm, gpu);
  stream_of_gpu const stream(gpu);
  device_array<cuda_device, float> const data(gpu, 1000);
  fill(ranks, data.data(), 1000, 7, stream);
  std::string said = "nothing";
  try {
    if (comm.rank() != 0) all_reduce(ranks, data, sum{}, {.stream = stream, .timeout = 300ms});
    for (int i = 0; i < 5000; ++i, ::usleep(1000)) ranks.work(stream).wait();
  } catch (error const& e) {
    said = e.what();
  }
  bool const named = said.find("rank 0 has not arrived: it is before its first call") != std::string::npos;
  report(comm, "a rank that does not come is named", !named || !all_are(ranks, data.data(), 1000, 7, stream));
}

// Kernels of processes with a GPU each wait for each other.
template <class Ranks, class Comm>
void check_algorithms(Ranks& ranks, Comm& comm, cudaStream_t stream) {
  device_options<cuda_device> const how{.stream = stream, .protocol = protocol::staged};
  auto const check = [&]<class Algorithm>(Algorithm) {
    for (std::size_t const n : {std::size_t{1}, std::size_t{4099}, std::size_t{few ? 20003u : 1000003u}})
      report(comm, join({"all_reduce by ", Algorithm::name, " of ", n, " elements"}), wrong([&] {
               device_conformance<float, Ranks, Comm, Algorithm>(ranks, comm, n, 0, how).check_all_reduce(sum{});
             }));
  };
  check(ring{});
  check(double_binary_tree{});
  auto const check_order = [&]<class Algorithm>(Algorithm) {
    report(comm, join({"reduce by ", Algorithm::name, ", to the last rank, that is not commutative"}), wrong([&] {
             for (std::size_t const n : {1, 8003, 16003})
               device_conformance<affine, Ranks, Comm, Algorithm>(ranks, comm, n, comm.size() - 1, how)
                   .check_reduce(compose{});
           }));
  };
  check_order(ring{});
  check_order(double_binary_tree{});
  device_array<cuda_device, float> const data(ranks.on(), 100);
  fill(ranks, data.data(), 100, 1, stream);
  for (int i = 0; i < (few ? 50 : 1000); ++i) all_reduce(ranks, data, tutti::max{}, {.stream = stream});
  all_reduce<ring>(ranks, data, sum{}, how);
  report(comm, "many calls by packets", !all_are(ranks, data.data(), 100, static_cast<float>(comm.size()), stream));
}

// By the path that `on` finds: lists, and messages that start together.
template <class Ranks, class Comm>
void check_groups(Ranks& ranks, Comm& comm, cudaStream_t stream, std::string const& way) {
  std::size_t const n = few ? 300 : 30000;
  auto const rank = static_cast<float>(comm.rank()), p = static_cast<float>(comm.size());
  std::vector<device_array<cuda_device, float>> arrays;
  std::vector<std::span<float>> list;
  for (std::size_t const count : {n, std::size_t{1}, n + 3, std::size_t{0}, std::size_t{7}}) {
    arrays.emplace_back(ranks.on(), count);
    list.emplace_back(arrays.back().data(), count);
    fill(ranks, list.back().data(), count, rank, stream);
  }
  all_reduce(ranks, list, sum{}, {.stream = stream});
  int bad = 0;
  for (auto const& one : list) bad += !all_are(ranks, one.data(), one.size(), p * (p - 1) / 2, stream);
  report(comm, "a list of arrays" + way, bad);

  fill(ranks, list[0].data(), n, rank, stream);
  int const right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
  device_batch halos(ranks);
  halos.send(list[0], right).recv(list[2], left);
  auto const got = halos.run({.stream = stream});
  report(comm, "messages that start together" + way,
         got != std::vector<received>{{left, 0, n}} ||
             !all_are(ranks, list[2].data(), n, static_cast<float>(left), stream));

  // These go from GPU to GPU, where ranks read each other's memory: in slices, and as a whole.
  std::size_t const large = message_outbox::max_bytes_by_host / sizeof(float) + 1000;
  device_array<cuda_device, float> const own(ranks.on(), large), taken(ranks.on(), large);
  for (std::span<float> const from : {std::span(own.data(), large), ranks.template allocate<float>(large)}) {
    fill(ranks, from.data(), large, rank, stream);
    received const one = send_recv(ranks, from, right, taken, left, 5, {.stream = stream});
    report(comm, "a large message" + way,
           one != received{left, 5, large} || !all_are(ranks, taken.data(), large, static_cast<float>(left), stream));
  }
}

int run_checks(int processes) {
  using some = std::vector<std::size_t>;
  run_local(processes, [](auto& comm) {
    bool const own = cuda_device_count() >= comm.size();
    cuda_device const gpu(comm.rank() % cuda_device_count());
    stream_of_gpu const stream(gpu);
    {
      cuda_ipc ranks(comm, gpu);
      if (comm.is_main()) std::printf("%s\n", ranks.explain().c_str());
      check_collectives(ranks, comm, stream, few ? some{0, 1, 6007} : some{0, 1, 4099, 100003}, "");
      check_graph(ranks, comm, stream);
      check_many(ranks, comm);
      if (own) check_algorithms(ranks, comm, stream);
      else if (comm.is_main()) std::printf("not run: kernels that wait for each other, because a GPU is shared\n");
    }
    {
      std::size_t const arena = few ? 4096 : 64 << 10;
      cuda_ipc ranks(comm, gpu, arena);
      check_collectives(ranks, comm, stream, few ? some{1, 1500} : some{0, 1, 4099, 100003},
                        join({", in parts of ", arena, " bytes"}));
    }
    {
      cuda_staged ranks(comm, gpu);
      check_collectives(ranks, comm, stream, few ? some{1, 1500} : some{0, 1, 4099, 100003}, ", by way of the host");
    }
    {
      auto ranks = on(comm, gpu, {.arena = 64 << 10, .slices = {.slice = 8 << 10}});
      check_groups(ranks, comm, stream, "");
    }
    if (comm.size() == 4) {
      auto ranks = on(comm, gpu, {.node = comm.rank() / 2, .arena = 64 << 10});
      if (comm.is_main()) std::printf("%s\n", ranks.explain().c_str());
      check_groups(ranks, comm, stream, ", in two levels");
      report(comm, "reductions in two levels",
             wrong([&] { check_reductions_of<std::uint32_t>(ranks, comm, 4099, sum{}, stream); }));
      report(comm, "moves in two levels", wrong([&] { check_movement_of<float>(ranks, comm, 4099, stream); }));
    }
    check_late_rank(gpu, comm);
    if (failed > 0) throw std::runtime_error(std::to_string(failed) + " checks failed");
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  few = argc > 1 && std::string_view(argv[1]) == "few";
  if (cuda_device_count_by_child() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    if (!few) run_checks(2);
    run_checks(few ? 3 : 4);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::puts("0 failed");
  return 0;
}
