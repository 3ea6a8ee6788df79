// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many GPUs there are.
#pragma once

#include <algorithm>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {

// The number of GPUs that this process sees; 0 if there is no driver.
inline int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

namespace detail {

// The same, determined in a child process: for programs that fork ranks, because CUDA does not work after a fork in a
// process that has used it before.
inline int cuda_device_count_by_child() {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(std::min(cuda_device_count(), 255));
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace detail

}  // namespace tutti
