// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times every call of a communicator, where the environment asks for it, or a profiler: for a trace, for statistics, for a log,
// for ranges that the profiler shows.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/json.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti {

// Of one collective, as this rank has seen its calls on one communicator.
struct call_statistics {
  std::uint64_t calls = 0, bytes = 0;  // bytes of messages, or of a block where there is one for each rank
  std::chrono::nanoseconds total{}, longest{};

  call_statistics& operator+=(call_statistics const& other) {
    calls += other.calls, bytes += other.bytes, total += other.total;
    longest = std::max(longest, other.longest);
    return *this;
  }
};

namespace detail {

// A thread's communicators are told apart by a number in the order of their making; the first gives the rank.
struct recorded_place {
  int rank, number;
};
inline recorded_place next_place(int rank) {
  thread_local int first = -1, count = 0;
  if (count == 0) first = rank;
  return {first, count++};
}

inline void write_log(recorded_place at, std::string const& line) {
  if (at.number == 0) std::fprintf(stderr, "tutti[%d] %s\n", at.rank, line.c_str());
  else std::fprintf(stderr, "tutti[%d, group %d] %s\n", at.rank, at.number, line.c_str());
}

// A file that several may append to at once.
class output_file {
 public:
  // Throws where it cannot be written, before anything is measured for it.
  [[gnu::cold]] output_file(char const* who, std::string const& path, bool empties)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (empties ? O_TRUNC : 0), 0666)) {
    if (file_.get() < 0)
      throw error({.code = error_code::bad_argument,
                   .what = join({who, ": ", path, " cannot be written: ", std::strerror(errno)}),
                   .way_out = "name a place in a folder that exists, e.g. /tmp/run"});
  }
  output_file(output_file const&) = delete;
  output_file& operator=(output_file const&) = delete;
  ~output_file() { flush(); }

  void add(std::string const& text) {
    pending_ += text;
    if (auto const now = deadline::clock::now(); pending_.size() >= enough || now - flushed_ >= often) {
      flush();
      flushed_ = now;
    }
  }
  void flush() noexcept {
    for (std::string_view rest = pending_; !rest.empty();) {
      ssize_t const written = ::write(file_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) break;  // the disk is full; the program goes on
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    pending_.clear();
  }

 private:
  static constexpr std::size_t enough = 1 << 16;
  static constexpr std::chrono::milliseconds often{100};
  descriptor file_;
  deadline::clock::time_point flushed_{};
  std::string pending_;
};

// Times every call: for a trace in Chrome's format (Trace Event Format, JSON array), statistics, a log, a profiler. One
// thread is in a call, while another may ask for the statistics, or find a fault.
class observer {
 public:
  using clock = std::chrono::steady_clock;

  static bool wanted(settings const& s) { return s.observes() || range_listener() != nullptr; }

  observer(settings const& s, recorded_place at, std::string title) : settings_(s), at_(at), title_(std::move(title)) {
    if (s.trace.empty()) return;
    trace_.emplace("TUTTI_TRACE", join({s.trace, ".", at.rank, ".json"}), at.number == 0);
    // An array that nobody closes is a trace too, so what a killed process has written can be read.
    if (at.number == 0)
      trace_->add(join({"[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": ", at.rank,
                        ", \"args\": {\"name\": \"rank ", at.rank, "\"}},\n"}));
    trace_->add(join({"{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": ", at.rank, ", \"tid\": ", at.number,
                      ", \"args\": {\"name\": ", json_string(title_), "}},\n"}));
    trace_->flush();
  }
  observer(observer const&) = delete;
  observer& operator=(observer const&) = delete;
  ~observer() {
    if (settings_.statistics && at_.rank == 0) print();
  }

  // Out of line: a program that does not ask for it pays for the question alone.
  template <class Board>
  [[gnu::noinline, gnu::cold]] void begin(std::uint64_t sequence, Board const& notices, int rank) {
    std::lock_guard const lock(busy_);
    if (ranges_ != nullptr)
      if (auto const words = notices.find(rank, sequence)) {
        readable_call const call = readable(*words, notices, rank);
        range_ = shown_range(ranges_, describe(*words, notices, rank), call.bytes);
      }
    began_ = clock::now();
  }
  template <class Board>
  [[gnu::noinline, gnu::cold]] void end(std::uint64_t sequence, Board const& notices, int rank) {
    std::lock_guard const lock(busy_);
    std::chrono::nanoseconds const took = clock::now() - began_;
    range_ = {};
    auto const words = notices.find(rank, sequence);
    if (!words) return;
    readable_call const call = readable(*words, notices, rank);
    std::string const text = describe(*words, notices, rank);
    statistics_[static_cast<std::size_t>(what_of(*words))] += {1, call.bytes, took, took};
    if (settings_.log == log_level::debug)
      write_log(at_, join({"call #", sequence, ", ", text, ", took ", in_us(took), " us"}));
    if (trace_)
      trace_->add(join({"{\"name\": ", json_string(call.what), ", \"ph\": \"X\", \"ts\": ",
                        fixed(in_us(began_.time_since_epoch() + epoch_)), ", \"dur\": ", fixed(in_us(took)),
                        ", \"pid\": ", at_.rank, ", \"tid\": ", at_.number, ", \"args\": {\"sequence\": ", sequence,
                        ", \"bytes\": ", call.bytes, ", \"call\": ", json_string(text),
                        ", \"where\": ", json_string(place_in(*words, notices, rank)), "}},\n"}));
  }
  // After an error no call ends.
  void flush() noexcept {
    std::lock_guard const lock(busy_);
    range_ = {};
    if (trace_) trace_->flush();
  }
  call_statistics of(collective what) const {
    std::lock_guard const lock(busy_);
    return statistics_[static_cast<std::size_t>(what)];
  }

 private:
  // Ranks of several machines have clocks of their own, but agree on the time of day.
  static std::chrono::nanoseconds day_less_steady() {
    return std::chrono::system_clock::now().time_since_epoch() - clock::now().time_since_epoch();
  }
  static double in_us(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }
  static std::string fixed(double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3f", number);
    return text;
  }

  [[gnu::cold]] void print() const {
    std::string out = join({"tutti: calls of ", title_, "\n"});
    char line[160];
    std::snprintf(line, sizeof line, "%-16s %10s %16s %12s %12s %12s\n", "collective", "calls", "bytes", "total ms",
                  "mean us", "longest us");
    out += line;
    for (collective const what : every_collective) {
      call_statistics const s = of(what);
      if (s.calls == 0) continue;
      std::snprintf(line, sizeof line, "%-16s %10llu %16llu %12.3f %12.3f %12.3f\n", std::string(name(what)).c_str(),
                    static_cast<unsigned long long>(s.calls), static_cast<unsigned long long>(s.bytes),
                    in_us(s.total) * 1e-3, in_us(s.total) / static_cast<double>(s.calls), in_us(s.longest));
      out += line;
    }
    std::fputs(out.c_str(), stderr);
  }

  settings const& settings_;
  recorded_place at_;
  std::string title_;
  mutable std::mutex busy_;
  std::optional<output_file> trace_;
  range_sink const* ranges_ = range_listener();
  shown_range range_{};
  std::chrono::nanoseconds epoch_ = day_less_steady();
  clock::time_point began_{};
  std::array<call_statistics, every_collective.size()> statistics_{};
};

}  // namespace detail
}  // namespace tutti
