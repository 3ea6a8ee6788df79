// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of devices for messages between virtual ranks, and what calls keep on the way.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/channel/release.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/growth.hpp"
#include "tutti/device/model/team.hpp"
#include "tutti/device/model/zeros.hpp"

namespace tutti {

// Made once and used by one call after the other, all on one stream. The devices outlive it, and it outlives its calls and
// the graphs that captured some.
//
//   tutti::device_channels channels(gpu, 4);      // of one GPU
//   tutti::device_channels channels(gpus, 8);     // of a std::vector<tutti::cuda_device>: the first half of ranks on the first of two
template <detail::cooperative_device D, class Reach = detail::one_device>
class device_channels {
 public:
  // Throws error: bad_argument; system, if a device has too little memory or cannot access another.
  device_channels(D const& on, int ranks, channel_options const& o = {})
    requires std::is_same_v<Reach, detail::one_device>
      : device_channels(std::make_shared<detail::device_team<D> const>(on), ranks, o) {}
  device_channels(std::type_identity_t<std::span<D const>> on, int ranks, channel_options const& o = {})
    requires std::is_same_v<Reach, detail::several_devices>
      : device_channels(std::make_shared<detail::device_team<D> const>(on), ranks, o) {}
  device_channels(D const&&, int, channel_options const& = {})  // the device must outlive it; keep it in a variable
    requires std::is_same_v<Reach, detail::one_device>
  = delete;
  template <detail::temporary_list R>
  device_channels(R const&&, int,  // the devices must outlive it; keep them in a variable
                  channel_options const& = {}) = delete;

  std::shared_ptr<detail::device_team<D> const> const& team() const { return team_; }
  int size() const { return map_.ranks; }
  std::size_t share() const { return share_; }
  detail::channel_map const& map() const { return map_; }

  // How the kernels of this call wait for each other on device k.
  Reach reach(int k) const { return release_.reach(k); }
  // Ends the kernels of this call that wait for messages. The counts of messages then differ between ranks, so no call can follow.
  [[gnu::cold]] void release_kernels() { release_.raise(); }

  // A call begins. Throws error, bad_argument, if none on this stream can use these channels. The order of messages relies on that
  // of a stream, so channels belong to one: that of the first call.
  void begin_call(detail::stream_of<D> stream, std::source_location where) {
    if (release_.raised())
      throw error({.code = error_code::bad_argument,
                   .what =
                       "these device_channels cannot be used after a call that was launched on some devices and failed "
                       "on another",
                   .way_out = "create new device_channels",
                   .where = where});
    if (!stream_) stream_ = stream;
    if (*stream_ == stream) return release_.begin_call();
    throw error({.code = error_code::bad_argument,
                 .what = "these device_channels are already used on another stream",
                 .way_out = "create device_channels for each stream",
                 .where = where});
  }

  // Scratch memory of calls on device k.
  std::byte* scratch(int k, std::size_t bytes) { return scratch_[static_cast<std::size_t>(k)].get(bytes); }

 private:
  device_channels(std::shared_ptr<detail::device_team<D> const> team, int ranks, channel_options const& o)
      : team_{std::move(team)}, share_{o.share}, map_{detail::channel_map::checked(ranks, o)}, release_(*team_) {
    for (int k = 0; k < team_->size(); ++k) {
      D const& on = team_->at(k);
      scratch_.emplace_back(on);
      extent const here = team_->ranks_on(k, ranks);
      std::byte* next = posts_.emplace_back(on, here.count * map_.post_bytes()).data();
      for (std::size_t r = here.begin; r < here.end(); ++r, next += map_.post_bytes()) {
        map_.posts[r] = next;
        detail::write_zeros(on, next, map_.flag_bytes());
      }
    }
  }

  std::shared_ptr<detail::device_team<D> const> team_;
  std::size_t share_;
  detail::channel_map map_;
  detail::kernel_release<D, Reach> release_;
  std::vector<detail::device_array<D, std::byte>> posts_;  // of all ranks on a device
  std::vector<detail::growing_memory<D>> scratch_;         // by device
  std::optional<detail::stream_of<D>> stream_;
};
template <detail::cooperative_device D>
device_channels(D const&, int) -> device_channels<D, detail::one_device>;
template <detail::cooperative_device D>
device_channels(D const&, int, channel_options const&) -> device_channels<D, detail::one_device>;
template <std::ranges::contiguous_range R>
device_channels(R const&, int) -> device_channels<std::ranges::range_value_t<R>, detail::several_devices>;
template <std::ranges::contiguous_range R>
device_channels(R const&, int, channel_options const&)
    -> device_channels<std::ranges::range_value_t<R>, detail::several_devices>;

}  // namespace tutti
