// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Virtual ranks of one process on its devices.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/channel/channels.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/team.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/started/work.hpp"
#include "tutti/tune/find.hpp"

namespace tutti {

namespace detail {

// One for each rank, in rank order.
template <class R>
concept device_buffers = requires(R& r, std::size_t rank) {
  { r.size() } -> std::convertible_to<std::size_t>;
  { r[rank] } -> device_buffer;
};
template <device_buffers R>
using device_element = device_value<std::remove_reference_t<decltype(std::declval<R&>()[0])>>;

}  // namespace detail

// Ranks on one device, or on several devices of this process that reach each other's memory; two GPUs have 4 of 8 ranks
// each. A call runs in order on the stream that it is given, one of the first device, and a graph that captures this stream
// captures the whole call. Devices must outlive the ranks, and so must the channels, which calls by a named algorithm need.
// With several devices, only one thread at a time may make calls.
//
//   tutti::device_channels channels(gpu, 4);
//   tutti::cuda_local ranks(channels);
//   tutti::all_reduce<tutti::ring>(ranks, gradients, gradients, tutti::sum{}, {.stream = stream});
//   ranks.work(stream).then([] { ... });
//
//   std::vector<tutti::cuda_device> gpus = tutti::cuda_devices();      // all of this machine
//   tutti::cuda_local ranks(gpus, 8);
template <detail::device D, class Reach = detail::one_device>
class cuda_local {
 public:
  // Throws error: bad_argument, for ranks other than 1 to 64, or a tuning table that cannot be read, which only ranks
  // with channels need; system, where a device cannot reach another.
  cuda_local(D const& on, int ranks)
    requires std::is_same_v<Reach, detail::one_device>
      : cuda_local(std::make_shared<detail::device_team<D> const>(on), ranks, nullptr) {}
  cuda_local(std::type_identity_t<std::span<D const>> on, int ranks)
    requires std::is_same_v<Reach, detail::several_devices>
      : cuda_local(std::make_shared<detail::device_team<D> const>(on), ranks, nullptr) {}
  cuda_local(D const&&, int)  // the device must outlive the ranks; keep it in a variable
    requires std::is_same_v<Reach, detail::one_device>
  = delete;
  template <detail::temporary_list R>
  cuda_local(R const&&, int) = delete;  // the devices must outlive the ranks; keep them in a variable
  explicit cuda_local(device_channels<D, Reach>& channels) : cuda_local(channels.team(), channels.size(), &channels) {}

  int size() const { return ranks_; }
  detail::device_team<D> const& team() const { return *team_; }
  D const& on(int rank = 0) const { return team_->at(team_->device_of(rank, ranks_)); }
  extent ranks_on(int k) const { return team_->ranks_on(k, ranks_); }  // device k of the team
  device_channels<D, Reach>* channels() const { return channels_; }
  std::size_t max_packet_bytes() const { return max_packet_bytes_; }

  // Completes when everything that `stream`, one of the first device, was given so far has run, on every device. The last
  // copy of these ranks waits for its continuations, for TUTTI_TIMEOUT at most.
  tutti::work work(detail::passed_stream<D> stream = {},
                   std::source_location where = std::source_location::current()) const
    requires detail::marking_device<D>
  {
    return works_->add(std::make_shared<detail::device_work<D>>(*works_, on(), nullptr, stream, where));
  }

 private:
  struct no_works {};
  static auto make_works() {
    if constexpr (detail::marking_device<D>) {
      using works = detail::device_works;
      return std::shared_ptr<works>(new works, [](works* all) {
        all->close(detail::settings::from_environment().timeout);
        delete all;
      });
    } else {
      return no_works();
    }
  }

  cuda_local(std::shared_ptr<detail::device_team<D> const> team, int ranks, device_channels<D, Reach>* channels)
      : team_{std::move(team)}, ranks_{ranks}, channels_{channels} {
    if (ranks < 1 || ranks > detail::max_device_ranks)
      throw error({.code = error_code::bad_argument,
                   .what = detail::join({"a device was asked for ", ranks, " virtual ranks"}),
                   .way_out = detail::join({"ask for 1 to ", detail::max_device_ranks})});
    if (channels == nullptr) return;
    device_limits const limits = detail::find_device_limits();
    max_packet_bytes_ = std::min(channels->map().packet_bytes(), std::is_same_v<Reach, detail::one_device>
                                                                     ? limits.packets_on_one_gpu
                                                                     : limits.packets_on_several_gpus);
  }

  std::shared_ptr<detail::device_team<D> const> team_;
  int ranks_;
  device_channels<D, Reach>* channels_;
  std::size_t max_packet_bytes_ = 0;
  [[no_unique_address]] decltype(make_works()) works_ = make_works();
};
template <detail::device D>
cuda_local(D const&, int) -> cuda_local<D, detail::one_device>;
template <std::ranges::contiguous_range R>
cuda_local(R const&, int) -> cuda_local<std::ranges::range_value_t<R>, detail::several_devices>;
template <class D, class Reach>
cuda_local(device_channels<D, Reach>&) -> cuda_local<D, Reach>;

}  // namespace tutti
