// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of a wait is read only once it is long enough for a rank to nap.
#include "notice.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <system_error>

#include "binding.hpp"
#include "environment.hpp"

namespace interpose {
namespace {

int seconds_until_notice() {
  static int const out = static_cast<int>(number_from_environment("TUTTI_MPI_NOTICE", 60));
  return out;
}

}  // namespace

void long_wait::look() noexcept try {
  if (of_thread != nullptr) of_thread->notice();
} catch (...) {  // there was no memory for the line
}

void long_wait::notice() {
  auto const now = std::chrono::steady_clock::now();
  if (began_ == std::chrono::steady_clock::time_point{}) began_ = now;
  int const seconds = seconds_until_notice();
  if (seconds <= 0 || now - began_ < std::chrono::seconds(seconds)) return;
  of_thread = nullptr;
  if (is_first_notice()) std::fprintf(stderr, "tutti: %s\n", describe_(call_, seconds).c_str());
}

long_start::long_start() {
  std::chrono::seconds const most(seconds_until_notice());
  if (most.count() <= 0) return;
  try {
    watch_ = std::jthread([most](std::stop_token const& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any ends;
      if (ends.wait_for(lock, stop, most, [&] { return stop.stop_requested(); })) return;
      std::fprintf(stderr,
                   "tutti: MPI_Init has waited for the other ranks for %d s, and goes on; have all of them loaded "
                   "libtutti-mpi.so?\n",
                   static_cast<int>(most.count()));
    });
  } catch (std::system_error const&) {  // there is no thread for the line
  }
}

}  // namespace interpose
