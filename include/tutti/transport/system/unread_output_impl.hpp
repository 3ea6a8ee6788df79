// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/unread_output.hpp.
#pragma once

#include <chrono>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "tutti/core/config.hpp"
#include "tutti/transport/system/unread_output.hpp"

namespace tutti::detail {

TUTTI_INLINE void wait_for_reader_of_output() noexcept {
  auto const unread = [](int number) {
    struct stat info{};
    int bytes = 0;
    return ::fstat(number, &info) == 0 && S_ISFIFO(info.st_mode) && ::ioctl(number, FIONREAD, &bytes) == 0 && bytes > 0;
  };
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while ((unread(STDOUT_FILENO) || unread(STDERR_FILENO)) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace tutti::detail
