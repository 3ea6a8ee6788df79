// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times every call of a communicator if the environment or a profiler asks for it: for a trace, statistics, a log, and
// ranges in the profiler.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "tutti/core/error.hpp"
#include "tutti/core/json.hpp"
#include "tutti/core/ranges.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/fault/output_file.hpp"
#include "tutti/fault/settings.hpp"

namespace tutti {

// Counts and times of one collective on one communicator, as seen by this rank.
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

// Names a communicator in logs and traces: the rank that this process, or this thread, has in its first communicator, and the
// number of this one among its communicators.
struct recorded_place {
  int rank, number;
};
recorded_place next_place(int rank, bool in_one_process);

void write_log(recorded_place at, std::string const& line);

// Times every call, for a trace in Chrome's format (Trace Event Format, JSON array), statistics, a log or a profiler.
// One thread is in a call, while another may request statistics or find a fault.
class observer {
 public:
  using clock = std::chrono::steady_clock;

  static bool wanted(settings const& s) { return s.observes() || range_listener() != nullptr; }

  observer(settings const& s, recorded_place at, std::string title);
  observer(observer const&) = delete;
  observer& operator=(observer const&) = delete;
  ~observer();

  // Out of line, so that a program without an observer pays only for the test.
  template <class Board>
  [[gnu::noinline, gnu::cold]] void begin(std::uint64_t sequence, Board const& notices, int rank);
  template <class Board>
  [[gnu::noinline, gnu::cold]] void end(std::uint64_t sequence, Board const& notices, int rank);
  // Writes what is pending; called after an error, when calls no longer end.
  void flush() noexcept;
  call_statistics of(collective what) const;

 private:
  // Machines differ in their steady clocks, but agree on the time of day.
  static std::chrono::nanoseconds day_less_steady();
  static double in_us(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }
  [[gnu::cold]] static std::string fixed(double number);

  [[gnu::cold]] void print() const;

  settings const& settings_;
  recorded_place at_;
  std::string title_;
  mutable std::mutex busy_;
  std::optional<event_file> trace_;
  range_sink const* ranges_ = range_listener();
  shown_range range_{};
  std::chrono::nanoseconds epoch_ = day_less_steady();
  clock::time_point began_{};
  std::array<call_statistics, every_collective.size()> statistics_{};
};

template <class Board>
void observer::begin(std::uint64_t sequence, Board const& notices, int rank) {
  std::lock_guard const lock(busy_);
  if (ranges_ != nullptr)
    if (auto const words = notices.find(rank, sequence)) {
      readable_call const call = readable(*words, notices, rank);
      range_ = shown_range(ranges_, describe(*words, notices, rank), call.bytes);
    }
  began_ = clock::now();
}

template <class Board>
void observer::end(std::uint64_t sequence, Board const& notices, int rank) {
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
  if (!trace_) return;
  std::string event;
  append_json(event, "{\"name\": ", call.what);
  append(event, {", \"ph\": \"X\", \"ts\": ", fixed(in_us(began_.time_since_epoch() + epoch_))});
  append(event, {", \"dur\": ", fixed(in_us(took)), ", \"pid\": ", at_.rank, ", \"tid\": ", at_.number,
                 ", \"args\": {\"sequence\": ", sequence, ", \"bytes\": ", call.bytes});
  append_json(event, ", \"call\": ", text);
  append_json(event, ", \"where\": ", site_in(*words, notices, rank));
  trace_->add(event += "}}");
}

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/observer_impl.hpp"
#endif
