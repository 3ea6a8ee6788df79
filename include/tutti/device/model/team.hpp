// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices of one process that work on the same calls, among which its ranks are dealt out in blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {
template <device D>
struct team_streams {};

// The first device works on the caller's stream, each other on one of its own.
template <linked_device D>
struct team_streams<D> {
  struct side {
    explicit side(D const& on) : stream(on), end(on) {}
    device_stream<D> stream;
    device_event<D> end;
  };

  explicit team_streams(std::span<D const* const> devices) : begin(*devices[0]) {
    for (D const* const on : devices.subspan(1)) sides.push_back(std::make_unique<side const>(*on));
  }

  device_event<D> begin;
  std::vector<std::unique_ptr<side const>> sides;
};

// The devices outlive it. One thread at a time gives them work.
template <device D>
class device_team {
 public:
  explicit device_team(D const& one) : devices_{&one} {}

  // Each reaches the memory of all others from then on. A device may be there more than once. Throws error: bad_argument;
  // system, where one cannot reach another.
  explicit device_team(std::span<D const> all)
    requires linked_device<D>
  {
    if (all.empty())
      throw error(
          {.code = error_code::bad_argument, .what = "a list of devices is empty", .way_out = "pass one or more"});
    for (D const& on : all) devices_.push_back(&on);
    for (D const& a : all)
      for (D const& b : all)
        if (!a.same_as(b)) a.reach(b);
    streams_.emplace(devices_);
  }

  int size() const { return static_cast<int>(devices_.size()); }
  D const& at(int k) const { return *devices_[static_cast<std::size_t>(k)]; }

  // Those of so many ranks that live on device k, and the device of a rank.
  extent ranks_on(int k, int ranks) const { return part(static_cast<std::size_t>(ranks), size(), k); }
  int device_of(int rank, int ranks) const {
    int k = 0;
    while (static_cast<std::size_t>(rank) >= ranks_on(k, ranks).end()) ++k;
    return k;
  }
  // How often device k is there.
  int times(int k) const {
    int out = 0;
    if constexpr (linked_device<D>)
      for (D const* const other : devices_) out += at(k).same_as(*other);
    return size() == 1 ? 1 : out;
  }

  // Calls f(k, stream) for each device. What f gives to these streams begins when all that `stream` was given before is
  // done, and what `stream` is given later begins when all of it is done; all that is captured where `stream` is.
  template <class F>
  void on_each(stream_of<D> stream, F const& f) const {
    if constexpr (linked_device<D>)
      if (streams_ && size() > 1) {
        streams_->begin.record(stream);
        auto const& sides = streams_->sides;
        for (std::size_t k = 0; k < sides.size(); ++k) streams_->begin.before(*devices_[k + 1], sides[k]->stream.get());
        auto const join_all = [&] {
          for (auto const& side : sides) {
            side->end.record(side->stream.get());
            side->end.before(at(0), stream);
          }
        };
        try {
          f(0, stream);
          for (std::size_t k = 0; k < sides.size(); ++k) f(static_cast<int>(k) + 1, sides[k]->stream.get());
        } catch (...) {
          try {
            join_all();
          } catch (...) {
          }  // the first one tells more
          throw;
        }
        join_all();
        return;
      }
    f(0, stream);
  }

 private:
  std::vector<D const*> devices_;
  std::optional<detail::team_streams<D>> streams_;  // of a list
};

}  // namespace tutti::detail
