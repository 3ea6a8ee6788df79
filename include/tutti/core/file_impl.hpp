// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/file.hpp.
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "tutti/core/file.hpp"

namespace tutti::detail {

TUTTI_INLINE std::optional<std::string> read_file(std::string const& path) {
  int const file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return {};
  std::string out;
  char part[4096];
  ssize_t n = 0;
  while ((n = ::read(file, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) out.append(part, static_cast<std::size_t>(n));
    if (out.size() <= max_file_bytes) continue;
    n = -1, errno = EFBIG;
    break;
  }
  int const reason = errno;
  ::close(file);
  errno = reason;
  if (n < 0) return {};
  return out;
}

TUTTI_INLINE std::string text_of_file(std::string const& path) {
  auto text = read_file(path);
  return text ? std::move(*text) : std::string();
}

}  // namespace tutti::detail
