// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An array whose memory a test can take away.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

#include "support/expect.hpp"

namespace tutti::testing {

// Zeros in pages of their own. Touching them after withdraw() ends the process.
class own_pages {
 public:
  explicit own_pages(std::size_t count) : bytes_(count * sizeof(float)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(memory_ != MAP_FAILED, "no memory");
  }
  own_pages(own_pages const&) = delete;
  own_pages& operator=(own_pages const&) = delete;
  ~own_pages() { ::munmap(memory_, bytes_); }

  std::span<float> numbers() { return {static_cast<float*>(memory_), bytes_ / sizeof(float)}; }
  void withdraw() { ::mprotect(memory_, bytes_, PROT_NONE); }

 private:
  std::size_t bytes_;
  void* memory_;
};

}  // namespace tutti::testing
