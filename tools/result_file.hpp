// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file that a tool writes.
#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

// Returns 0, or the number of the error; then no incomplete file stays, except behind a symbolic link.
inline int write_result(std::string const& path, std::string const& text) {
  errno = 0;
  std::ofstream file(path);
  bool const opened = file.is_open();
  file << text;
  file.close();
  if (file) return 0;
  int const reason = errno != 0 ? errno : EIO;
  std::error_code ignored;
  if (opened && std::filesystem::is_regular_file(std::filesystem::symlink_status(path, ignored)))
    std::filesystem::remove(path, ignored);
  return reason;
}
