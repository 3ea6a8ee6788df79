// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of time for a profiler. They cost nothing unless a listener such as device/cuda/nvtx.cuh is installed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace tutti::detail {

struct range_sink {
  std::uint64_t (*start)(char const* text, std::uint64_t bytes) noexcept;
  void (*end)(std::uint64_t range) noexcept;
};
// Set before main if a profiler listens. A communicator reads it when it is created, so calls without a profiler pay
// nothing.
inline std::atomic<range_sink const*> ranges{nullptr};
inline range_sink const* range_listener() noexcept { return ranges.load(std::memory_order_acquire); }

// A range from construction to destruction. Ranges of a thread need not be nested: started calls overlap, and may end
// in another thread.
class shown_range {
 public:
  shown_range() = default;
  shown_range(range_sink const* sink, std::string const& text, std::uint64_t bytes)
      : sink_(sink), range_(sink != nullptr ? sink->start(text.c_str(), bytes) : 0) {}
  shown_range(shown_range&& other) noexcept : sink_(std::exchange(other.sink_, nullptr)), range_(other.range_) {}
  shown_range& operator=(shown_range&& other) noexcept {
    end();
    sink_ = std::exchange(other.sink_, nullptr);
    range_ = other.range_;
    return *this;
  }
  ~shown_range() { end(); }

 private:
  void end() noexcept {
    if (sink_ != nullptr) sink_->end(range_);
    sink_ = nullptr;
  }
  range_sink const* sink_ = nullptr;
  std::uint64_t range_ = 0;
};

// text() describes the range, for a profiler that listens.
template <class Text>
shown_range show(Text&& text, std::uint64_t bytes) {
  range_sink const* const sink = range_listener();
  return sink != nullptr ? shown_range(sink, text(), bytes) : shown_range();
}

}  // namespace tutti::detail
