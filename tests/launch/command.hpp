// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shell commands, for tests of programs.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace tutti::testing {

// A command that runs in the background; its output and its errors arrive together.
class command {
 public:
  explicit command(std::string const& line) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", ("exec " + line).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    reading_ = ends[0];
  }
  command(command const&) = delete;
  command& operator=(command const&) = delete;
  ~command() {
    if (process_ > 0) ::kill(process_, SIGKILL), wait();
    ::close(reading_);
  }

  void signal(int number) const { ::kill(process_, number); }
  pid_t process() const { return process_; }

  // Reads until the output contains `text`, or ends.
  void read_until(std::string const& text) {
    while (output.find(text) == output.npos && read_some()) {
    }
  }
  // Reads everything and returns the exit code, or 128 and the signal.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  bool said(std::string const& text) const { return output.find(text) != output.npos; }

  std::string output;

 private:
  bool read_some() {
    char part[4096];
    ssize_t const n = ::read(reading_, part, sizeof part);
    if (n > 0) output.append(part, static_cast<std::size_t>(n));
    return n > 0;
  }

  pid_t process_ = -1;
  int reading_ = -1;
};

inline std::ptrdiff_t lines_with(std::string const& text, std::string const& words) {
  std::ptrdiff_t out = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != text.npos; at += words.size()) ++out;
  return out;
}

class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::testing
