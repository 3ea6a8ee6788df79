// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Benchmarks as one source, to see that they compile: nvcc takes longer to read their headers than for all the rest.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "../../bench/crossover.hpp"
#include "../../bench/median.hpp"
#include "cuda/captured.cuh"
#include "support/gpu_count.cuh"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"

// All that they include has been included.
namespace bench_ipc {
#include "../../bench/cuda_ipc.cu"
}
namespace bench_packets {
#include "../../bench/cuda_packets.cu"
}
namespace bench_staged {
#include "../../bench/cuda_staged.cu"
}
