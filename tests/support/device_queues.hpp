// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device for tests whose memory is the host's and whose streams run late: work waits in queues and runs when a thread
// polls, in any order that streams and events allow, which changes from run to run. A missing order in the caller leads
// to wrong results here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support/device_stand_in.hpp"
#include "tutti/core/error.hpp"
#include "tutti/device/model/staging_device.hpp"

namespace tutti::testing {

// A piece of work that was given to the device.
struct device_job {
  enum kinds { down, up, other, kernel } kind;  // a copy to pinned memory, out of it, or between others
  std::size_t bytes;
};
struct device_faults {
  int allocations = -1;  // the number that succeed; all if negative
  int copies = -1;
  bool stalled = false;   // streams make no progress
  bool captured = false;  // into a graph
};

class device_queues {
 public:
  using stream_type = int;  // 0 is the default one
  using event_type = int;

  explicit device_queues(unsigned seed = 1, device_faults broken = {}) : inside_{std::make_unique<state>()} {
    inside_->random.seed(seed);
    inside_->broken = broken;
  }
  std::vector<device_job> const& jobs() const { return inside_->jobs; }
  device_faults& broken() const { return inside_->broken; }

  void* allocate(std::size_t bytes) const {
    use_up(inside_->broken.allocations, "memory of the device is used up");
    return stand_in_.allocate(bytes);
  }
  void release(void* memory) const noexcept { stand_in_.release(memory); }
  void* allocate_pinned(std::size_t bytes) const {
    use_up(inside_->broken.allocations, "pinned memory is used up");
    void* const out = stand_in_.allocate(bytes);
    inside_->pinned[static_cast<std::byte*>(out)] = bytes;
    return out;
  }
  void release_pinned(void* memory) const noexcept {
    inside_->pinned.erase(static_cast<std::byte*>(memory));
    stand_in_.release(memory);
  }

  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
    use_up(inside_->broken.copies, "a copy failed");
    inside_->jobs.push_back({is_pinned(to)     ? device_job::down
                             : is_pinned(from) ? device_job::up
                                               : device_job::other,
                             bytes});
    give(stream, [=] {
      if (bytes > 0) std::memmove(to, from, bytes);
      return true;
    });
  }
  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    inside_->jobs.push_back({device_job::kernel, 0});
    give(stream, [items, work] {
      device_stand_in{}.launch({}, items, work);
      return true;
    });
  }
  void wait(stream_type stream, detail::deadline until) const {
    while (!inside_->streams[stream].empty()) {
      if (run_one()) continue;
      if (until.passed())
        throw error({.code = error_code::timeout, .what = "a stream of the test's device stands still"});
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  stream_type make_stream() const { return ++inside_->made; }
  void end_stream(stream_type stream) const noexcept { inside_->streams.erase(stream); }
  event_type make_event() const {
    inside_->events.emplace_back();
    return static_cast<int>(inside_->events.size()) - 1;
  }
  void drop(event_type) const noexcept {}
  void record(event_type event, stream_type stream) const {
    std::uint64_t const turn = ++of(event).recorded;
    give(stream, [this, event, turn] {
      of(event).reached = turn;
      return true;
    });
  }
  void follow(stream_type stream, event_type event) const {
    std::uint64_t const turn = of(event).recorded;
    give(stream, [this, event, turn] { return of(event).reached >= turn; });
  }
  bool reached(event_type event) const {
    for (auto n = inside_->random() % 3; n > 0; --n) run_one();
    return of(event).reached == of(event).recorded;
  }
  bool capturing(stream_type) const { return inside_->broken.captured; }

 private:
  struct moments {
    std::uint64_t recorded = 0, reached = 0;
  };
  struct state {
    std::mt19937 random;
    device_faults broken;
    int made = 0;
    std::map<stream_type, std::deque<std::function<bool()>>> streams;  // jobs return whether they could run
    std::deque<moments> events;
    std::map<std::byte const*, std::size_t> pinned;
    std::vector<device_job> jobs;
  };

  moments& of(event_type event) const { return inside_->events[static_cast<std::size_t>(event)]; }
  bool is_pinned(void const* at) const {
    auto const* const byte = static_cast<std::byte const*>(at);
    auto const next = inside_->pinned.upper_bound(byte);
    return next != inside_->pinned.begin() && byte < std::prev(next)->first + std::prev(next)->second;
  }
  static void use_up(int& left, char const* what) {
    if (left == 0) throw error({.code = error_code::system, .what = what});
    if (left > 0) --left;
  }
  void give(stream_type stream, std::function<bool()> job) const { inside_->streams[stream].push_back(std::move(job)); }
  // Runs the next job of some stream. Returns whether one could run.
  bool run_one() const {
    if (inside_->broken.stalled) return false;
    auto& all = inside_->streams;
    auto at = all.begin();
    if (!all.empty()) std::advance(at, static_cast<std::ptrdiff_t>(inside_->random() % all.size()));
    for (std::size_t i = 0; i < all.size(); ++i, ++at) {
      if (at == all.end()) at = all.begin();
      if (at->second.empty() || !at->second.front()()) continue;
      at->second.pop_front();
      return true;
    }
    return false;
  }

  device_stand_in stand_in_;
  std::unique_ptr<state> inside_;
};
static_assert(detail::staging_device<device_queues>);

}  // namespace tutti::testing
