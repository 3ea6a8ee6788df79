// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many GPUs there are, for programs that fork ranks.
#pragma once

#include <algorithm>
#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti/device/cuda/count.cuh"

namespace tutti::testing {

// Determined in a child process, because CUDA does not work after a fork in a process that has used it before.
inline int cuda_device_count_by_child() {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(std::min(cuda_device_count(), 255));
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace tutti::testing
