// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How tutti-run forwards the output of ranks and writes its own messages. Threads write, so that a reader that reads slowly, or not
// at all, never keeps the launcher from noticing what happens to the ranks.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tutti/transport/system/descriptor.hpp"

namespace launcher {

// Writes texts one after another on a thread of its own.
class background_writer {
 public:
  background_writer() = default;
  // Waits until everything is written.
  ~background_writer() {
    {
      std::lock_guard const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void write(int to, std::string text) {
    {
      std::lock_guard const lock(mutex_);
      bytes_ += text.size();
      waiting_.emplace_back(to, std::move(text));
    }
    changed_.notify_one();
  }
  // Waits until everything is written.
  void finish() {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this] { return bytes_ == 0; });
  }
  // Whether so much waits to be written that no more output should be read. handle() becomes readable when there is room again.
  bool is_full() {
    std::lock_guard const lock(mutex_);
    return bytes_ >= most_bytes;
  }
  // The number of the first error, or 0. handle() becomes readable when there is one.
  int error() {
    std::lock_guard const lock(mutex_);
    return error_;
  }
  int handle() const { return room_.get(); }
  // Makes handle() unreadable until there is news again.
  void note_room() const {
    std::uint64_t times = 0;
    [[maybe_unused]] auto const n = ::read(room_.get(), &times, sizeof times);
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  void run() {
    sigset_t broken_pipe;  // an error instead of the end of the launcher, which has ranks to end
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto const [to, text] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      int const problem = write_all(to, text);
      lock.lock();
      bool const breaks = error_ == 0 && problem != 0;
      if (breaks) error_ = problem;
      bool const was_full = bytes_ >= most_bytes;
      bytes_ -= text.size();
      if (bytes_ == 0) written_.notify_all();
      if (!breaks && (!was_full || bytes_ >= most_bytes)) continue;
      std::uint64_t const once = 1;
      [[maybe_unused]] auto const n = ::write(room_.get(), &once, sizeof once);
    }
  }
  // Throws std::runtime_error.
  template <class Work>
  static std::thread start(Work&& work) {
    try {
      return std::thread(std::forward<Work>(work));
    } catch (std::system_error const& e) {
      throw std::runtime_error(
          fmt::format("cannot start a thread, which writes output: {}; raise the limit of processes (ulimit -u) or of "
                      "memory (ulimit -v)",
                      std::strerror(e.code().value())));
    }
  }
  // Returns 0, or the number of the error that keeps the rest from being written.
  static int write_all(int to, std::string_view text) {
    while (!text.empty()) {
      ssize_t const written = ::write(to, text.data(), text.size());
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
      else if (errno == EAGAIN) wait_for_room(to);
      else if (written < 0 && errno != EINTR) return errno;
    }
    return 0;
  }
  // Another program that shares the file may have made it non-blocking.
  static void wait_for_room(int to) {
    pollfd room{to, POLLOUT, 0};
    ::poll(&room, 1, -1);
  }

  tutti::detail::descriptor room_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::condition_variable changed_, written_;
  std::deque<std::pair<int, std::string>> waiting_;
  std::size_t bytes_ = 0;  // of the texts that wait, and of the one that is being written
  int error_ = 0;          // the first
  bool ends_ = false;
  std::thread thread_ = start([this] { run(); });
};

// The standard output and the standard error. They have a writer each, or one writer if they are the same file, which keeps lines
// whole and in order.
class console {
 public:
  console() {
    struct stat out{}, errors{};
    bool const same = ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &errors) == 0 &&
                      out.st_dev == errors.st_dev && out.st_ino == errors.st_ino;
    if (!same) second_.emplace();
  }
  background_writer& of(int file) { return file == STDERR_FILENO && second_ ? *second_ : first_; }

 private:
  background_writer first_;
  std::optional<background_writer> second_;
};

// Everything is written when the program ends.
inline console& the_console() {
  static console one;
  return one;
}

// Forwards the output of a rank line by line, with the rank in front of each. A line that has not ended is held back, up to max_line
// bytes, because it may never end. While the writer is full, nothing is read, so a rank that writes more waits, as it would without the
// launcher.
class output {
 public:
  output(tutti::detail::descriptor from, int to, int rank)
      : from_(std::move(from)), to_(to), prefix_(fmt::format("[{}] ", rank)) {
    ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }
  bool is_open() const { return from_.get() >= 0; }
  // -1, which poll() ignores, while nothing should be read.
  int handle() const { return the_console().of(to_).is_full() ? -1 : from_.get(); }

  // If nobody reads what this program writes any more, the rank learns of it at its next write, as it would without the launcher.
  void close_if_broken() {
    if (!is_open() || the_console().of(to_).error() != EPIPE) return;
    line_.clear();
    close();
  }

  // Reads a bounded amount, because a rank may write without end.
  void forward() {
    for (int parts = 0; parts < 16 && handle() >= 0; ++parts)
      if (!forward_some()) return;
  }
  // After the end of the rank: forwards what is left, and completes the last line if its newline is missing.
  void finish() {
    while (is_open() && forward_some()) {
    }
    close();
  }

 private:
  static constexpr std::size_t max_line = std::size_t{1} << 20;

  // Whether there may be more.
  bool forward_some() {
    char part[65536];
    ssize_t const n = ::read(from_.get(), part, sizeof part);
    if (n < 0) return errno == EINTR;
    if (n == 0) close();
    else add({part, static_cast<std::size_t>(n)});
    return n > 0;
  }
  void close() {
    if (!line_.empty()) add("\n");
    from_ = tutti::detail::descriptor();
  }
  void add(std::string_view text) {
    std::string lines;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      lines += prefix_ + line_;
      lines += text.substr(0, end + 1);
      line_.clear();
    }
    line_ += text;
    if (line_.size() >= max_line) lines += prefix_ + std::exchange(line_, {}) + "\n";
    if (!lines.empty()) the_console().of(to_).write(to_, std::move(lines));
  }

  tutti::detail::descriptor from_;
  int to_;
  std::string prefix_;
  std::string line_;  // the incomplete last line
};

// The output of all ranks, with --prefix.
class outputs {
 public:
  void add(tutti::detail::descriptor out, tutti::detail::descriptor errors, int rank) {
    std::erase_if(all_, [](output const& o) { return !o.is_open(); });
    all_.emplace_back(std::move(out), STDOUT_FILENO, rank);
    all_.emplace_back(std::move(errors), STDERR_FILENO, rank);
  }
  // What to wait for.
  void append_to(std::vector<pollfd>& waiting) const {
    for (output const& o : all_) waiting.push_back({o.handle(), POLLIN, 0});
  }
  // `ready`: what append_to() has appended, after the wait.
  void forward(std::span<pollfd const> ready) {
    for (output& o : all_) o.close_if_broken();
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (ready[i].revents != 0) all_[i].forward();
  }
  void finish() {
    for (output& o : all_) o.finish();
  }

 private:
  std::vector<output> all_;
};

}  // namespace launcher
