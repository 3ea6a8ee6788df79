// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices of one process that work on the same calls. Each has an equal share of the ranks, in rank order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {
// A list that is gone when the call that was given it ends.
template <class R>
concept temporary_list = std::ranges::contiguous_range<R> && !std::ranges::borrowed_range<R>;

template <device D>
struct team_streams {};

// The first device uses the caller's stream, each other one a stream of its own.
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

// Devices must outlive the team. Only one thread at a time may give it work.
template <device D>
class device_team {
 public:
  explicit device_team(D const& one) : devices_{&one} {}

  // Makes the memory of each device accessible to all others. Throws error: bad_argument, for an empty list or one that has
  // a device twice, whose kernels might not run at once; system, if one cannot access another.
  explicit device_team(std::span<D const> all)
    requires linked_device<D>
  {
    if (all.empty())
      throw error(
          {.code = error_code::bad_argument, .what = "a list of devices is empty", .way_out = "pass one or more"});
    for (std::size_t b = 0; b < all.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a)
        if (all[a].same_as(all[b]))
          throw error({.code = error_code::bad_argument,
                       .what = join({"a list of devices has the same one at places ", a, " and ", b}),
                       .way_out = "list each device once; several ranks can share it"});
      devices_.push_back(&all[b]);
    }
    for (D const& a : all)
      for (D const& b : all)
        if (!a.same_as(b)) a.reach(b);
    streams_.emplace(devices_);
  }

  int size() const { return static_cast<int>(devices_.size()); }
  D const& at(int k) const { return *devices_[static_cast<std::size_t>(k)]; }
  std::span<D const* const> all() const { return devices_; }

  // The ranks, of this many, that are on device k.
  extent ranks_on(int k, int ranks) const { return part(static_cast<std::size_t>(ranks), size(), k); }
  int device_of(int rank, int ranks) const {
    int k = 0;
    while (static_cast<std::size_t>(rank) >= ranks_on(k, ranks).end()) ++k;
    return k;
  }

  // Calls f(k, stream) for each device. Work that f gives to these streams begins after the earlier work of `stream`,
  // and later work of `stream` begins after all of it. If `stream` is being captured, so is all of that work.
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
          }  // the first error says more
          throw;
        }
        join_all();
        return;
      }
    f(0, stream);
  }

 private:
  std::vector<D const*> devices_;
  std::optional<detail::team_streams<D>> streams_;  // only for several devices
};

}  // namespace tutti::detail
