// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <optional>
#include <string>
#include <unistd.h>

namespace tutti::detail {

// The text of a file; none, and errno, where it can't be read.
[[gnu::cold]] inline std::optional<std::string> read_file(std::string const& path) {
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string out;
  char part[4096];
  ssize_t n = 0;
  while ((n = ::read(file, part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) out.append(part, static_cast<std::size_t>(n));
  int const why = errno;
  ::close(file);
  errno = why;
  if (n < 0) return {};
  return out;
}

}  // namespace tutti::detail
