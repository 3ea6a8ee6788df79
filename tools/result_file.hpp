// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file that a tool writes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

// Whether this names a file, or nothing yet, and not a device, a pipe or an open descriptor, which could not be replaced.
inline bool is_replaceable(std::filesystem::path const& path) {
  std::error_code unknown;
  std::filesystem::path const whole = std::filesystem::absolute(path, unknown).lexically_normal();
  for (char const* const special : {"/dev/", "/proc/"})
    if (whole.string().starts_with(special)) return false;
  std::filesystem::file_status const there = std::filesystem::status(path, unknown);
  return !std::filesystem::exists(there) || std::filesystem::is_regular_file(there);
}

// Returns 0, or the number of the error.
inline int write_in_place(std::string const& path, std::string const& text) {
  errno = 0;
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? 0 : errno != 0 ? errno : EIO;
}

// Writes a file, which replaces an earlier one once it is complete. Returns 0, or the number of the error; then an earlier one stays.
inline int write_result(std::string const& path, std::string const& text) {
  if (!is_replaceable(path)) return write_in_place(path, text);
  std::error_code problem;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, problem);
  if (problem) target = path;
  std::string const draft = target.string() + "." + std::to_string(::getpid());
  int reason = write_in_place(draft, text);
  if (reason == 0 && std::rename(draft.c_str(), target.c_str()) != 0) reason = errno;
  if (reason != 0) std::filesystem::remove(draft, problem);
  return reason;
}
