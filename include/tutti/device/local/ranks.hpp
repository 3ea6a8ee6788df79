// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Virtual ranks of one process on its devices, and what is refused of the buffers that a program passes for them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/algorithm/collective.hpp"
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

namespace tutti {

// One for each rank, in rank order.
template <class R>
concept device_buffers = requires(R& r, std::size_t rank) {
  { r.size() } -> std::convertible_to<std::size_t>;
  { r[rank] } -> device_buffer;
};
template <device_buffers R>
using device_element = device_value<std::remove_reference_t<decltype(std::declval<R&>()[0])>>;

// Ranks that live on one device, or are dealt out in blocks to several of this process, which reach each other's memory:
// of 8 ranks, two GPUs have 4 each. Calls are ordered by the stream that they are given, one of the first device, and all of
// a call is captured in a graph where that stream is. Devices outlive it, and so do channels, which are for calls that name
// an algorithm, or packets. Where there are several devices, one thread at a time makes calls.
//
//   tutti::device_channels channels(gpu, 4);
//   tutti::cuda_local ranks(channels);
//   tutti::all_reduce<tutti::ring>(ranks, gradients, gradients, tutti::sum{}, {.stream = stream});
//   ranks.work(stream).then([] { ... });
//
//   std::vector<tutti::cuda_device> gpus = tutti::cuda_devices();      // all of this machine
//   tutti::cuda_local ranks(gpus, 8);
template <device D, class Reach = one_device>
class cuda_local {
 public:
  // Throws error: bad_argument, for ranks other than 1 to 64; system, where a device cannot reach another.
  cuda_local(D const& on, int ranks)
    requires std::is_same_v<Reach, one_device>
      : cuda_local(std::make_shared<device_team<D> const>(on), ranks, nullptr) {}
  cuda_local(std::type_identity_t<std::span<D const>> on, int ranks)
    requires std::is_same_v<Reach, several_devices>
      : cuda_local(std::make_shared<device_team<D> const>(on), ranks, nullptr) {}
  explicit cuda_local(device_channels<D, Reach>& channels) : cuda_local(channels.team(), channels.size(), &channels) {}

  int size() const { return ranks_; }
  device_team<D> const& team() const { return *team_; }
  D const& on(int rank = 0) const { return team_->at(team_->device_of(rank, ranks_)); }
  extent ranks_on(int k) const { return team_->ranks_on(k, ranks_); }  // device k of the team
  device_channels<D, Reach>* channels() const { return channels_; }

  // Ends when all that `stream`, one of the first device, was given so far has run: calls on it on every device, too. What
  // follows it has run before the last copy of this goes, unless it takes longer than TUTTI_TIMEOUT.
  tutti::work work(stream_of<D> stream = {}, std::source_location where = std::source_location::current()) const
    requires marking_device<D>
  {
    return works_->add(std::make_shared<detail::device_work<D>>(*works_, on(), nullptr, stream, where));
  }

 private:
  struct no_works {};
  static auto make_works() {
    if constexpr (marking_device<D>) {
      using works = detail::device_works<D>;
      return std::shared_ptr<works>(new works, [](works* all) {
        all->close(settings::from_environment().timeout);
        delete all;
      });
    } else {
      return no_works();
    }
  }

  cuda_local(std::shared_ptr<device_team<D> const> team, int ranks, device_channels<D, Reach>* channels)
      : team_{std::move(team)}, ranks_{ranks}, channels_{channels} {
    if (ranks < 1 || ranks > max_device_ranks)
      throw error({.code = error_code::bad_argument,
                   .what = join({"a device was asked for ", ranks, " virtual ranks"}),
                   .way_out = join({"ask for 1 to ", max_device_ranks})});
  }

  std::shared_ptr<device_team<D> const> team_;
  int ranks_;
  device_channels<D, Reach>* channels_;
  [[no_unique_address]] decltype(make_works()) works_ = make_works();
};
template <device D>
cuda_local(D const&, int) -> cuda_local<D, one_device>;
template <std::ranges::contiguous_range R>
cuda_local(R const&, int) -> cuda_local<std::ranges::range_value_t<R>, several_devices>;
template <class D, class Reach>
cuda_local(device_channels<D, Reach>&) -> cuda_local<D, Reach>;

namespace detail {

template <class Buffers>
std::size_t size_of_first(Buffers const& buffers) {
  return buffers.size() > 0 ? static_cast<std::size_t>(buffers[0].size()) : 0;
}

// The addresses of the buffers of some ranks, of which rank r's has sizes[r] elements.
template <class Pointer, class Buffers>
std::vector<Pointer> addresses(char const* what, Buffers& buffers, std::span<std::size_t const> sizes,
                               std::source_location where) {
  if (buffers.size() != sizes.size())
    throw error({.code = error_code::bad_argument,
                 .what = join({buffers.size(), " ", what, " buffers for ", sizes.size(), " ranks"}),
                 .way_out = "pass one for each rank",
                 .where = where});
  std::vector<Pointer> out;
  for (auto& buffer : buffers) {
    std::size_t const size = sizes[out.size()];
    if (buffer.size() != size)
      throw error({.code = error_code::bad_argument,
                   .rank = static_cast<int>(out.size()),
                   .what = join({"the ", what, " buffer has ", buffer.size(), " elements where the call needs ", size}),
                   .way_out = "give it that size",
                   .where = where});
    out.push_back(reinterpret_cast<Pointer>(device_data(buffer)));
  }
  return out;
}

// The same where `count` ranks have `size` elements each.
template <class Pointer, class Buffers>
std::vector<Pointer> addresses(char const* what, Buffers& buffers, int count, std::size_t size,
                               std::source_location where) {
  return addresses<Pointer>(what, buffers, std::vector(static_cast<std::size_t>(count), size), where);
}

// Input and output of a rank are the same place, where that is allowed, or do not touch: blocks are read and written by
// threads that do not wait for each other. The rank's block begins at element `begin` of the message.
template <collective C, class In, class Out>
void expect_apart(int rank, In const* in, std::size_t in_size, Out const* out, std::size_t out_size, std::size_t begin,
                  std::source_location where) {
  auto const a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
  std::uintptr_t const block = begin * sizeof(In);
  bool const in_place = C == collective::reduce_scatter ? b == a + block
                        : C == collective::all_gather   ? a == b + block
                        : C == collective::reduce
                            ? a == b && rank == 0
                            : (C == collective::all_reduce || C == collective::broadcast) && a == b;
  if ((in_place && std::is_same_v<In, Out>) || a + in_size * sizeof(In) <= b || b + out_size * sizeof(Out) <= a) return;
  throw error({.code = error_code::bad_argument,
               .rank = rank,
               .what = join({"input and output of ", name(C), " overlap"}),
               .way_out = "use two buffers, or see the contract for what may be in place",
               .where = where});
}
template <collective C, class In, class Out>
void expect_apart(std::vector<In const*> const& in, std::vector<Out*> const& out, std::size_t in_size,
                  std::size_t out_size, std::size_t n, std::source_location where) {
  for (std::size_t r = 0; r < in.size() && r < out.size(); ++r)
    expect_apart<C>(static_cast<int>(r), in[r], in_size, out[r], out_size, r * n, where);
}

}  // namespace detail
}  // namespace tutti
