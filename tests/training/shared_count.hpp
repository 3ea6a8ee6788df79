// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks wait for each other without a call.
#pragma once

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>

namespace tutti::testing {

// A number that ranks share, whether they are threads or processes that are started later. They wait for it without driving
// any calls.
class shared_count {
 public:
  shared_count() {
    void* const page =
        ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    value_ = new (page) std::atomic<int>(0);
  }
  shared_count(shared_count const&) = delete;
  shared_count& operator=(shared_count const&) = delete;
  ~shared_count() { ::munmap(value_, sizeof *value_); }

  void add() { ++*value_; }
  // Throws if others do not reach this number: they wait for something that this rank holds back.
  void await(int number, char const* otherwise) const {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (*value_ < number) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error(otherwise);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  std::atomic<int>* value_;
};

}  // namespace tutti::testing
