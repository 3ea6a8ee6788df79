// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor that closes itself, and the error of a failed system call.
#pragma once

#include <cerrno>
#include <string_view>
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
  ~descriptor();
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 protected:
  void forget() noexcept { number_ = -1; }

 private:
  int number_ = -1;
};

// Of a call of the system that has failed. `way_out`: unless this process may open no more files.
[[noreturn]] void throw_system(std::string_view what, std::string_view way_out, int code = errno);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/descriptor_impl.hpp"
#endif
