// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce with epilogues on rows, and norms of gradients: among ranks with a GPU each, in one kernel, and among virtual ranks of one GPU. Ranks are
// threads, so that on the PTX machine their kernels run in one machine, which then finds races between them. Exits with 77 with
// fewer than two GPUs. `rows few` is for the PTX machine.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cuda/report.hpp"
#include "support/device_norm.hpp"
#include "support/device_rows.hpp"
#include "support/gpu_count.cuh"
#include "support/local_rows.hpp"
#include "tutti/cuda_rows.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

bool few = false;  // elements and ranks

struct rows_of_ranks {
  template <class Comm>
  void operator()(Comm& comm) const {
    cuda_device const gpu(comm.rank());
    device_stream<cuda_device> const stream(gpu);
    std::size_t const length = few ? 72 : 4096;
    std::size_t const rooms = 2 * static_cast<std::size_t>(std::max(4, comm.size()));  // of a row, by two_shot
    cuda_ipc ranks(comm, gpu, rooms * length * sizeof(tutti::bfloat16));
    device_rows<tutti::bfloat16, decltype(ranks), Comm> rows(ranks, comm, 40 * length, {.stream = stream.get()});
    for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
      rows.check_norms(by, 7, length);
      rows.check_norms(by, 5, 33, 1);
    }
    rows.check_symmetric(5, length);
  }
};

// In several pieces for a thread, with rows that do not fit the memory of a block.
struct long_rows {
  template <class Comm>
  void operator()(Comm& comm) const {
    cuda_device const gpu(comm.rank());
    device_stream<cuda_device> const stream(gpu);
    cuda_ipc ranks(comm, gpu);
    std::size_t const length = length_of_long_row<tutti::bfloat16>;
    device_rows<tutti::bfloat16, decltype(ranks), Comm> rows(ranks, comm, 3 * length, {.stream = stream.get()});
    rows.check_residual(algorithm_id::two_shot, few ? 1 : 3, length);
  }
};

struct norms_of_gradients {
  template <class Comm>
  void operator()(Comm& comm) const {
    cuda_device const gpu(comm.rank());
    device_stream<cuda_device> const stream(gpu);
    cuda_ipc ranks(comm, gpu);
    device_options<cuda_device> const how{.stream = stream.get()};
    check_norm<tutti::bfloat16>(ranks, comm, {100, 0, 32801}, 2.0f, gradients::in_shards, how);
    if (!few) check_norm<tutti::bfloat16>(ranks, comm, std::vector<std::size_t>(130, 5), 2.0f, gradients::equal, how);
  }
};

template <class Check>
void on_ranks(int ranks, std::string const& what, Check const& check) {
  report_run(join({what, ", on ", ranks, " ranks"}), [&] { run_threads(ranks, check); });
}

}  // namespace

int main(int argc, char** argv) {
  few = argc > 1 && std::string_view(argv[1]) == "few";
  int const gpus = cuda_device_count_by_child();
  if (gpus < 1) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  cuda_device const gpu;
  report("rows of virtual ranks", wrong_rows_of<tutti::bfloat16>(gpu, 3, 5, few ? 100 : 4096).empty());
  if (gpus < 2) std::puts("not run: ranks with a GPU each, because there is one GPU");
  for (int const p : {2, 3, 4, 8}) {
    if (p > gpus || (few && p != 3)) continue;
    on_ranks(p, "rows are finished", rows_of_ranks{});
    on_ranks(p, "long rows are finished", long_rows{});
    on_ranks(p, "gradients have a norm", norms_of_gradients{});
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
