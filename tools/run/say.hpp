// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of tutti-run itself.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "output.hpp"

namespace launcher {

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  the_console()
      .of(STDERR_FILENO)
      .write(STDERR_FILENO, fmt::format("tutti-run: {}\n", fmt::format(format, std::forward<T>(values)...)));
}

// Ends the program because a system call, `what`, has failed.
[[noreturn]] inline void give_up(std::string const& what) {
  say("{}: {}", what, std::strerror(errno));
  std::exit(1);
}

}  // namespace launcher
