// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/output_file.hpp.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/output_file.hpp"

namespace tutti::detail {

[[noreturn, gnu::cold]] TUTTI_INLINE void refuse_output(char const* who, std::string const& path,
                                                        std::string_view reason, char const* way_out) {
  throw error({.code = error_code::bad_argument,
               .what = join({who, ": ", path, " cannot be written: ", reason}),
               .way_out = way_out});
}

TUTTI_INLINE descriptor open_output(char const* who, std::string const& path) {
  static constexpr char const* remove_it = "remove it, or choose a path in a folder that only you can write to";
  descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!file && errno == ELOOP) refuse_output(who, path, "it is a symbolic link", remove_it);
  if (!file) refuse_output(who, path, std::strerror(errno), "choose a path in an existing folder, e.g. /tmp/run");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    refuse_output(who, path, "it is not a regular file", remove_it);
  if (info.st_nlink > 1) refuse_output(who, path, "it is a hard link to another file", remove_it);
  return file;
}

// Holds a file among the processes that write to it. It stops waiting soon, because any process that can read the file
// can lock it for ever; then writes may mix.
class file_lock {
 public:
  explicit file_lock(int file) noexcept : file_(file) {
    for (int tries = 100; tries > 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; --tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  file_lock(file_lock const&) = delete;
  file_lock& operator=(file_lock const&) = delete;
  ~file_lock() { ::flock(file_, LOCK_UN); }

 private:
  int file_;
};

// Returns 0, or the number of an error, after which the file ends where the text should have begun.
TUTTI_INLINE int write_at(int file, std::string_view text, ::off_t const begin) noexcept {
  for (::off_t at = begin; !text.empty();) {
    ssize_t const written = ::pwrite(file, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      int const problem = errno;
      [[maybe_unused]] int const shortened = ::ftruncate(file, begin);
      return problem;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return 0;
}

TUTTI_INLINE void write_whole_file(char const* who, std::string const& path, std::string_view text) {
  descriptor const file = open_output(who, path);
  file_lock const alone(file.get());
  int const problem = ::ftruncate(file.get(), 0) == 0 ? write_at(file.get(), text, 0) : errno;
  if (problem != 0) refuse_output(who, path, std::strerror(problem), "choose a path on a disk that has enough space");
}

TUTTI_INLINE event_file::event_file(char const* who, std::string const& path, bool empties)
    : file_(open_output(who, path)) {
  if (!empties) return;
  file_lock const alone(file_.get());
  if (::ftruncate(file_.get(), 0) != 0)
    refuse_output(who, path, std::strerror(errno), "choose another path, e.g. /tmp/run");
}

TUTTI_INLINE event_file::~event_file() { flush(); }

TUTTI_INLINE void event_file::add(std::string const& event) {
  if (!pending_.empty()) pending_.resize(pending_.size() - end_of_array.size());
  append(pending_, {",\n", event, end_of_array});
  if (auto const now = deadline::clock::now(); pending_.size() >= enough || now - flushed_ >= often) {
    flush();
    flushed_ = now;
  }
}

TUTTI_INLINE void event_file::flush() noexcept {
  if (pending_.empty()) return;
  file_lock const alone(file_.get());
  ::off_t const end = ::lseek(file_.get(), 0, SEEK_END), kept = end - static_cast<::off_t>(end_of_array.size());
  if (kept < 0) pending_.front() = '[';  // the array begins where otherwise a comma continues it
  int const problem = write_at(file_.get(), pending_, kept < 0 ? 0 : kept);
  pending_.clear();
  if (problem == 0) return;
  if (kept >= 0) write_at(file_.get(), end_of_array, kept);
  if (!std::exchange(has_lost_, true))
    std::fprintf(stderr, "tutti: events are missing in a trace: %s\n", std::strerror(problem));
}

}  // namespace tutti::detail
