// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums that an NVLink switch combines, among ranks that are threads of one process, and among processes. Each has a GPU. Exits with 77
// where no switch does. On the PTX machine, threads let it find races, and the switch adds from the last rank to the first.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "support/temporary_folder.hpp"
#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

constexpr in_any_order<sum> any_sum{};
bool is_ptx_machine() { return std::getenv("PTX_SWITCH") != nullptr; }

template <class Comm>
struct rank_on_gpu {
  Comm& comm;
  cuda_device gpu;
  device_stream<cuda_device> stream{gpu};
  cuda_ipc<cuda_device, typename Comm::transport_type> ranks{comm, gpu, 16 << 10};

  explicit rank_on_gpu(Comm& c) : comm{c}, gpu{c.rank()} {}

  device_options<cuda_device> symmetric(algorithm_id algorithm = algorithm_id::automatic) const {
    return {.stream = stream.get(), .algorithm = algorithm, .symmetric = true};
  }
  template <class T>
  void set(std::span<T> to, std::vector<T> const& values) {
    gpu.copy(stream.get(), to.data(), values.data(), to.size_bytes());
    gpu.wait(stream.get(), deadline::after(60s));
  }
  template <class T>
  std::vector<T> values_of(std::span<T> from) {
    std::vector<T> out(from.size());
    gpu.copy(stream.get(), out.data(), from.data(), from.size_bytes());
    ranks.work(stream.get()).wait();
    return out;
  }
};

// Small whole numbers, whose sums are exact, at all places of a buffer that a message may take; what lies around it stays.
template <class T, class Rank>
void check_exact(Rank& here, std::span<T> in, std::span<T> out) {
  auto const number = [](int rank, std::size_t i) { return static_cast<float>(rank + 1) + static_cast<float>(i % 13); };
  for (std::size_t const begin :
       {std::size_t{0}, std::size_t{8}, std::size_t{1}})  // an odd place goes without the switch
    for (std::size_t const n : {std::size_t{2400}, std::size_t{2391}, std::size_t{3}})
      for (bool const in_place : {false, true}) {
        std::vector<T> mine(in.size(), T(50.0f));
        for (std::size_t i = 0; i < n; ++i) mine[begin + i] = T(number(here.comm.rank(), i));
        here.set(in, mine);
        here.set(out, std::vector<T>(out.size(), T(50.0f)));
        barrier(here.comm);
        std::span<T> const whole = in_place ? in : out;
        all_reduce(here.ranks, in.subspan(begin, n), whole.subspan(begin, n), any_sum,
                   here.symmetric(algorithm_id::two_shot));
        std::vector<T> const got = here.values_of(whole);
        for (std::size_t i = 0; i < got.size(); ++i) {
          float expected = 50;
          if (i >= begin && i - begin < n) {
            expected = 0;
            for (int q = 0; q < here.comm.size(); ++q) expected += number(q, i - begin);
          }
          expect(
              static_cast<float>(got[i]) == expected,
              join({n, " elements from ", begin, " on", in_place ? ", in place" : "", ": element ", i, " is wrong"}));
        }
        barrier(here.comm);
      }
}

// Sums that depend on the order: all ranks get the same bits, and `sum` those of the host.
template <class Rank>
void check_order(Rank& here, std::span<float> in, std::span<float> out) {
  std::size_t const n = 1000;
  int const p = here.comm.size();
  auto const number = [](int rank, std::size_t i) {
    return rank == 0 ? 1e8f : rank == 1 ? -1e8f : 1.0f + static_cast<float>(i % 7) / 8;
  };
  std::vector<float> mine(n), in_order(n);
  for (std::size_t i = 0; i < n; ++i) mine[i] = number(here.comm.rank(), i);
  all_reduce(here.comm, mine, in_order, sum{}, {.algorithm = algorithm_id::one_shot});
  here.set(in.first(n), mine);
  barrier(here.comm);
  all_reduce(here.ranks, in.first(n), out.first(n), any_sum, here.symmetric());
  std::vector<float> const got = here.values_of(out.first(n));
  std::vector<float> first = got;
  broadcast(here.comm, first, 0);
  expect(got == first, "ranks have sums with different bits");
  if (is_ptx_machine() && p > 2)
    for (std::size_t i = 0; i < n; ++i) {
      float expected = number(p - 1, i);
      for (int q = p - 1; q-- > 0;) expected += number(q, i);
      expect(got[i] == expected, "the switch did not compute this sum");
    }
  all_reduce(here.ranks, in.first(n), out.first(n), sum{}, here.symmetric());
  expect(here.values_of(out.first(n)) == in_order, "sum does not have the bits of the host");
  barrier(here.comm);
}

// Each call uses what the one before has left, some with the switch and some without, and the next may begin while others still end.
template <class Rank>
void check_sequence(Rank& here, std::span<float> a, std::span<float> b) {
  std::size_t const n = 2000;
  std::span<float> const from = a.first(n), to = b.first(n);
  here.set(from, std::vector<float>(n, 1.0f));
  barrier(here.comm);
  captured const graph(here.stream.get(), [&] {
    all_reduce(here.ranks, from, to, any_sum, here.symmetric());
    all_reduce(here.ranks, to, any_sum, here.symmetric());
    all_reduce(here.ranks, to, from, tutti::max{}, here.symmetric(algorithm_id::one_shot));
  });
  graph.replay(2);
  broadcast(here.ranks, from, 1, here.symmetric());
  all_reduce(here.ranks, from, any_sum, here.symmetric());
  float expected = 1;
  for (int k = 0; k < 5; ++k) expected *= static_cast<float>(here.comm.size());
  expect(here.values_of(from) == std::vector<float>(n, expected), "five sums, one after the other");
  barrier(here.comm);
}

struct all_checks {
  std::string const& skipped;  // a file that is made if there is no switch

  template <class Comm>
  void operator()(Comm& comm) const {
    rank_on_gpu<Comm> here(comm);
    auto const a = here.ranks.template allocate<float>(2500), b = here.ranks.template allocate<float>(2500);
    if (!contains(here.ranks.explain(), "the switch")) {
      if (comm.is_main()) std::printf("skipped: there is no switch; %s\n", here.ranks.explain().c_str());
      std::ofstream{skipped};
      return barrier(comm);
    }
    auto const c = here.ranks.template allocate<half>(2500), d = here.ranks.template allocate<half>(2500);
    auto const e = here.ranks.template allocate<bfloat16>(2500), f = here.ranks.template allocate<bfloat16>(2500);
    check_exact<float>(here, a, b);
    check_exact<half>(here, c, d);
    check_exact<bfloat16>(here, e, f);
    check_order(here, a, b);
    check_sequence(here, a, b);
  }
};

// A switch that fails at one rank while memory is being allocated.
struct broken_switch {
  template <class Comm>
  void operator()(Comm& comm) const {
    rank_on_gpu<Comm> here(comm);
    auto const a = here.ranks.template allocate<float>(2500), b = here.ranks.template allocate<float>(2500);
    expect(contains(here.ranks.explain(), "no switch computes sums: rank 1 cannot"), here.ranks.explain());
    here.set(a, std::vector<float>(a.size(), 1.0f));
    barrier(comm);
    all_reduce(here.ranks, a, b, any_sum, here.symmetric());
    expect(here.values_of(b) == std::vector<float>(b.size(), static_cast<float>(comm.size())), "sums without it");
    barrier(comm);
  }
};

}  // namespace

int main() {
  int const gpus = cuda_device_count_by_child();
  if (gpus < 2) {
    std::puts("skipped: there is no second GPU");
    return 77;
  }
  temporary_folder const folder;
  std::string const table = (folder.path() / "table").string(), skipped = (folder.path() / "skipped").string();
  std::ofstream(table) << tuning_version << "\ndevice processes packets 0\n";
  ::setenv("TUTTI_TUNING", table.c_str(), 1);
  ::setenv("TUTTI_NVLS", "1", 1);
  // Processes first, because CUDA does not work in the child of a process that has used it.
  for (bool const threads : {false, true})
    for (int const p : {2, 3, 4}) {
      if (p > gpus || std::filesystem::exists(skipped)) continue;
      report_run(join({"sums by the switch on ", p, threads ? " threads" : " processes"}),
                 [&] { threads ? run_threads(p, all_checks{skipped}) : run_local(p, all_checks{skipped}); });
    }
  if (is_ptx_machine() && !std::filesystem::exists(skipped)) {
    ::setenv("PTX_SWITCH", "2", 1);
    report_run("sums without a switch that fails", [] { run_threads(3, broken_switch{}); });
  }
  std::printf("%d failed\n", failed);
  return failed > 0 ? 1 : std::filesystem::exists(skipped) ? 77 : 0;
}
