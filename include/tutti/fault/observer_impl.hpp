// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/observer.hpp.
#pragma once

#include <atomic>
#include <charconv>
#include <cstdio>
#include <utility>

#include "tutti/fault/observer.hpp"

namespace tutti::detail {

TUTTI_INLINE recorded_place next_place(int rank, bool in_one_process) {
  struct counter {
    std::atomic<int> rank{-1}, number{0};
  };
  static constinit thread_local counter of_thread;
  static constinit counter of_process;
  counter& here = in_one_process ? of_thread : of_process;
  int first = -1;
  if (here.rank.compare_exchange_strong(first, rank)) first = rank;
  return {first, here.number++};
}

TUTTI_INLINE void write_log(recorded_place at, std::string const& line) {
  if (at.number == 0) std::fprintf(stderr, "tutti[%d] %s\n", at.rank, line.c_str());
  else std::fprintf(stderr, "tutti[%d, group %d] %s\n", at.rank, at.number, line.c_str());
}

TUTTI_INLINE void observer::flush() noexcept {
  std::lock_guard const lock(busy_);
  range_ = {};
  if (trace_) trace_->flush();
}

TUTTI_INLINE observer::observer(settings const& s, recorded_place at, std::string title)
    : settings_(s), at_(at), title_(std::move(title)) {
  if (s.trace.empty()) return;
  trace_.emplace("TUTTI_TRACE", join({s.trace, ".", at.rank, ".json"}), at.number == 0);
  if (at.number == 0)
    trace_->add(join({"{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": ", at.rank,
                      ", \"args\": {\"name\": \"rank ", at.rank, "\"}}"}));
  trace_->add(join({"{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": ", at.rank, ", \"tid\": ", at.number,
                    ", \"args\": {\"name\": ", json_string(title_), "}}"}));
  trace_->flush();
}

TUTTI_INLINE observer::~observer() {
  if (settings_.statistics && at_.rank == 0) print();
}

TUTTI_INLINE call_statistics observer::of(collective what) const {
  std::lock_guard const lock(busy_);
  return statistics_[static_cast<std::size_t>(what)];
}

TUTTI_INLINE std::chrono::nanoseconds observer::day_less_steady() {
  return std::chrono::system_clock::now().time_since_epoch() - clock::now().time_since_epoch();
}

TUTTI_INLINE std::string observer::fixed(double number) {
  char text[400];  // enough for any double
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, 3).ptr};
}

TUTTI_INLINE void observer::print() const {
  std::string rows;
  char line[160];
  for (collective const what : every_collective) {
    call_statistics const s = of(what);
    if (s.calls == 0) continue;
    std::snprintf(line, sizeof line, "%-16s %10llu %16llu %12.3f %12.3f %12.3f\n", std::string(name(what)).c_str(),
                  static_cast<unsigned long long>(s.calls), static_cast<unsigned long long>(s.bytes),
                  in_us(s.total) * 1e-3, in_us(s.total) / static_cast<double>(s.calls), in_us(s.longest));
    rows += line;
  }
  if (rows.empty()) return;
  std::snprintf(line, sizeof line, "%-16s %10s %16s %12s %12s %12s\n", "collective", "calls", "bytes", "total ms",
                "mean us", "longest us");
  // The number that logs and records show; %.0d prints nothing for 0.
  std::fprintf(stderr, at_.number == 0 ? "tutti: calls of %s%.0d\n%s%s" : "tutti: calls of %s, group %d\n%s%s",
               title_.c_str(), at_.number, line, rows.c_str());
}

}  // namespace tutti::detail
