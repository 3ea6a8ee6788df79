// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variables of the environment that are set for a while.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

class environment {
 public:
  environment(std::initializer_list<std::pair<char const*, std::string>> values) {
    for (auto const& [name, value] : values) {
      ::setenv(name, value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~environment() {
    for (char const* const name : names_) ::unsetenv(name);
  }

 private:
  std::vector<char const*> names_;
};

}  // namespace tutti::testing
