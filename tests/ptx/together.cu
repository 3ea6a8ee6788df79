// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs of tests/cuda and an example as one, because nvcc takes 20 s to read their headers: `together rows few` is `rows few`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_algorithms.hpp"
#include "support/device_conformance.hpp"
#include "support/device_counters.hpp"
#include "support/device_norm.hpp"
#include "support/device_rows.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "support/local_rows.hpp"
#include "support/temporary_folder.hpp"
#include "support/wire_reference.hpp"
#include "tutti/cuda.cuh"
#include "tutti/cuda_rows.cuh"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"
#include "tutti/window.cuh"

// All that they include has been included.
namespace ipc {
#include "cuda/ipc.cu"
}
namespace shots {
#include "cuda/shots.cu"
}
namespace rows {
#include "cuda/rows.cu"
}
namespace faults {
#include "cuda/faults.cu"
}
namespace matvec {
#include "../examples/18_gpu_matvec.cu"
}

int main(int argc, char** argv) {
  std::string_view const name = argc > 1 ? argv[1] : "";
  if (name == "ipc") return ipc::main(argc - 1, argv + 1);
  if (name == "shots") return shots::main(argc - 1, argv + 1);
  if (name == "rows") return rows::main(argc - 1, argv + 1);
  if (name == "faults") return faults::main(argc - 1, argv + 1);
  if (name == "matvec") return matvec::main(argc - 1, argv + 1);
  std::puts("usage: together ipc|shots|rows|faults|matvec [argument...]");
  return 2;
}
