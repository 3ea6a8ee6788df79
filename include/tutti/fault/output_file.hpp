// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that traces and flight records are written to.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "tutti/core/wait.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// Opens a file for writing, creates it if there is none, and keeps its contents. A path in /tmp is easily guessed, and
// another user may have put a link to a file of ours there, or a pipe: those are not opened.
// Throws bad_argument, which begins with `who`.
[[gnu::cold]] descriptor open_output(char const* who, std::string const& path);

// Replaces the contents of a file. Throws bad_argument.
[[gnu::cold]] void write_whole_file(char const* who, std::string const& path, std::string_view text);

// A JSON array of events that several processes may append to. It is closed after every write and the next write
// begins over its end, so it is valid JSON also if the program is killed. Events for which the disk has no room are missing; the first
// time, a line on the standard error says so.
class event_file {
 public:
  // Throws bad_argument if the file cannot be written, before anything is measured.
  [[gnu::cold]] event_file(char const* who, std::string const& path, bool empties);
  event_file(event_file const&) = delete;
  event_file& operator=(event_file const&) = delete;
  ~event_file();

  void add(std::string const& event);
  void flush() noexcept;

 private:
  static constexpr std::size_t enough = 1 << 16;
  static constexpr std::chrono::milliseconds often{100};
  static constexpr std::string_view end_of_array = "\n]\n";

  descriptor file_;
  bool has_lost_ = false;
  deadline::clock::time_point flushed_{};
  std::string pending_;  // empty, or events, each after a separator, and the end of the array
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/output_file_impl.hpp"
#endif
