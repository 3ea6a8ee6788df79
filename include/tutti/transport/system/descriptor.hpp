// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor that closes itself, and the error for what the system refuses.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"

namespace tutti::detail {

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

[[noreturn]] inline void throw_system(std::string const& what, std::string const& way_out, int code = errno) {
  throw error({.code = error_code::system, .what = what + ": " + std::strerror(code), .way_out = way_out});
}

}  // namespace tutti::detail
