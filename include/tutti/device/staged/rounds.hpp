// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rounds of a collective on device memory: copies, messages and kernels, slice by slice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/staged/area.hpp"
#include "tutti/device/staged/call.hpp"
#include "tutti/device/staged/host_blocks.hpp"

namespace tutti::detail {

// Carries out calls on the streams of an area and on a communicator. Slices are copied down, sent, copied up and combined.
template <staging_device D, transport Transport>
class staged_rounds {
 public:
  using slot = staging_slot<D>;
  using journey = staged_call<D, Transport>;
  using blocks = block_list;

  staged_rounds(communicator<Transport>& comm, staging_area<D>& area, std::size_t slice, bool hands_over)
      : comm_(comm), area_(area), slice_(slice), hands_over_(hands_over) {}

  // The maximal number of elements of a rank's block in one slice.
  std::size_t block_elements(std::size_t in_bytes, std::size_t out_bytes, std::source_location where) const {
    std::size_t const bytes = std::max(in_bytes, out_bytes), n = slice_ / ranks() / bytes;
    if (n == 0)
      refuse(rank(),
             join({"one element of ", bytes, " bytes for each of ", size(), " ranks does not fit a slice of ", slice_}),
             "create cuda_staged with larger slices", where);
    std::size_t const whole = grain(in_bytes, out_bytes);
    return n < whole ? n : n / whole * whole;
  }

  // The blocks of this rank on one side of a call: one for every rank, or a single one.
  blocks blocks_of(layout const& where, bool has_any, bool all) const {
    if (!has_any) return {};
    return all ? detail::blocks_of(where, size()) : blocks{where.at(0, rank())};
  }

  // Adjacent blocks on both sides are copied at once.
  template <class T>
  void copy_blocks(stream_of<D> stream, T* to, blocks const& places, T const* from, blocks const& sources) const {
    for (std::size_t q = 0; q < std::min(places.size(), sources.size());) {
      std::size_t const first = q;
      std::size_t n = 0;
      do n += sources[q++].count;
      while (q < sources.size() && places[q].begin == places[first].begin + n &&
             sources[q].begin == sources[first].begin + n);
      copy(stream, to + places[first].begin, from + sources[first].begin, n);
    }
  }

  template <class In, class Out, class How>
  void combine_sources(stream_of<D> stream, std::vector<In const*> const& from, Out* to, std::size_t n,
                       How const& how) const {
    Out* const destinations[] = {to};
    cuda_combine(area_.on, stream, std::span(from), std::span<Out* const>(destinations), n, how);
  }

  // The blocks `given` of this rank go to other ranks, and `got` come from them.
  template <collective C, class T>
  void move(journey& trip, device_call<D, T, T> const& call, blocks const& given, blocks const& got,
            std::size_t max_block) {
    std::size_t longest = std::max(longest_of(given), longest_of(got));
    if (call.what.ragged && C != collective::all_gather)
      all_reduce(comm_, std::span(&longest, 1), max{}, trip.for_host(), call.where);
    auto const stride = [&](std::size_t slice) { return slice_of(longest, max_block, slice).count; };
    trip.travel(
        slices(longest, max_block), 1,
        [&](slot& s, std::size_t slice) {
          blocks const part = slices_of(given, max_block, slice);
          copy_blocks(area_.down.get(), at<T>(s.down), packed(part, stride(slice), 1), call.in, part);
        },
        [&](slot& s, std::size_t slice, int) {
          if (!call.what.ragged) return send<C>(trip, s, stride(slice) * sizeof(T), call.what.root);
          return send_ragged<C>(trip, s, packed(slices_of(given, max_block, slice), stride(slice), sizeof(T)),
                                packed(slices_of(got, max_block, slice), stride(slice), sizeof(T)), call.what.root);
        },
        [&](slot& s, std::size_t slice, int) {
          blocks const part = slices_of(got, max_block, slice);
          copy_blocks(area_.up.get(), call.out, part, at<T>(s.up), packed(part, stride(slice), 1));
        });
  }
  // Directly between the callers' buffers. The input of a broadcast's root is passed as writable, because MPI takes it
  // so.
  template <collective C, class T>
  void hand_over(journey& trip, device_call<D, T, T> const& call, blocks const& given, blocks const& got) {
    trip.await_stream();
    int const root = call.what.root;
    if (call.what.ragged)
      move_ragged_on_host<C, native>(comm_, call.in, given, call.out, got, root, trip.for_host(), call.where);
    else
      move_blocks_on_host<C, native>(comm_, call.in, call.out != nullptr ? call.out : const_cast<T*>(call.in),
                                     std::max(longest_of(given), longest_of(got)), root, trip.for_host(), call.where);
    trip.finish();
  }

  // one_shot: each rank that receives a result combines the contributions of all ranks.
  template <collective C, class In, class Out, class How>
  void combine_all(journey& trip, device_call<D, In, Out> const& call, std::size_t max_block, How const& how) {
    constexpr collective moves = C == collective::reduce_scatter ? collective::all_to_all
                                 : C == collective::reduce       ? collective::gather
                                                                 : collective::all_gather;
    blocks const given = blocks_of(call.given, true, deals(C));
    extent const own = given[deals(C) ? mine() : 0];
    std::size_t const longest = longest_of(given);
    auto const stride = [&](std::size_t slice) {
      return padded(slice_of(longest, max_block, slice).count, max_block, sizeof(In), sizeof(Out));
    };
    trip.travel(
        slices(longest, max_block), 1,
        [&](slot& s, std::size_t slice) {
          blocks const part = slices_of(given, max_block, slice);
          copy_blocks(area_.down.get(), at<In>(s.down), packed(part, stride(slice), 1), call.in, part);
        },
        [&](slot& s, std::size_t slice, int) {
          return send<moves>(trip, s, stride(slice) * sizeof(In), call.what.root);
        },
        [&](slot& s, std::size_t slice, int) {
          auto const [begin, n] = slice_of(own.count, max_block, slice);
          if (call.out == nullptr || n == 0) return;
          auto from = sources(s, stride(slice), call.in + own.begin + begin);
          if (C == collective::scan) from.resize(mine() + 1);
          if (C == collective::exclusive_scan) from.resize(mine());
          if (from.empty()) return;
          combine_sources(area_.up.get(), from, call.out + begin, n, shifted_by(begin, how));
        });
  }

  // two_shot: each rank combines its block of a slice and shares the result. Slices are cut into blocks, whose copies are then
  // adjacent; or shards into slices, where ranks own shards.
  template <collective C, class In, class Out, class How>
  void combine_and_share(journey& trip, device_call<D, In, Out> const& call, std::size_t max_block, How const& how) {
    constexpr collective shares = C == collective::reduce ? collective::gather : collective::all_gather;
    constexpr bool in_shards = has_shards<How>;
    std::size_t const count = call.what.count, max_slice = max_block * ranks();
    blocks shards;
    for (int q = 0; q < size(); ++q) shards.push_back(shard_of(count, size(), q));
    auto const stride = [&](std::size_t slice) {
      std::size_t const longest = in_shards ? slice_of(shards[0].count, max_block, slice).count
                                            : slices(slice_of(count, max_slice, slice).count, ranks());
      return padded(longest, max_block, sizeof(In), sizeof(Out));
    };
    auto const part = [&](std::size_t slice) {
      if (in_shards) return slices_of(shards, max_block, slice);
      auto const [begin, n] = slice_of(count, max_slice, slice);
      blocks out;
      for (std::size_t q = 0; q < ranks(); ++q) {
        extent const block = slice_of(n, stride(slice), q);
        out.push_back({begin + block.begin, block.count});
      }
      return out;
    };
    trip.travel(
        in_shards ? slices(shards[0].count, max_block) : slices(count, max_slice), 2,
        [&](slot& s, std::size_t slice) {
          blocks const all = part(slice);
          copy_blocks(area_.down.get(), at<In>(s.down), packed(all, stride(slice), 1), call.in, all);
        },
        [&](slot& s, std::size_t slice, int round) {
          std::size_t const n = stride(slice);
          return round == 0 ? send<collective::all_to_all>(trip, s, n * sizeof(In), 0)
                            : send<shares>(trip, s, n * sizeof(Out), call.what.root);
        },
        [&](slot& s, std::size_t slice, int round) {
          blocks const all = part(slice);
          if (round == 1) {
            if (call.out == nullptr) return;
            return copy_blocks(area_.up.get(), call.out, all, at<Out>(s.up), packed(all, stride(slice), 1));
          }
          extent const own = all[mine()];
          auto const from = sources(s, stride(slice), call.in + own.begin);
          Out* const result = reinterpret_cast<Out*>(s.result.data());
          combine_sources(area_.up.get(), from, result, own.count,
                          shifted_by(in_shards ? own.begin - shards[mine()].begin : 0, how));
          s.combined.record(area_.up.get());
          s.combined.before(area_.down.get());
          copy(area_.down.get(), at<Out>(s.down), result, own.count);
          s.came_down.record(area_.down.get());
        });
  }

 private:
  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::size_t mine() const { return static_cast<std::size_t>(rank()); }
  template <class T>
  static T* at(message_memory<D> const& memory) {
    return reinterpret_cast<T*>(memory.data());
  }

  // -- Slices. If there is room, blocks start at multiples of this many elements, so that all are aligned for packs.
  static constexpr std::size_t grain(std::size_t in_bytes, std::size_t out_bytes) {
    return std::max<std::size_t>(1, cache_line / std::min(in_bytes, out_bytes));
  }
  static std::size_t padded(std::size_t n, std::size_t max_block, std::size_t in_bytes, std::size_t out_bytes) {
    std::size_t const whole = grain(in_bytes, out_bytes);
    return std::min(max_block, (n + whole - 1) / whole * whole);
  }

  template <class T>
  void copy(stream_of<D> stream, T* to, T const* from, std::size_t n) const {
    if (to != from && n > 0) area_.on.copy(stream, to, from, n * sizeof(T));
  }

  // -- Messages.
  template <class F>
  work on_host(F const& call) {
    if constexpr (may_accept_device_memory<Transport>)
      if (hands_over_) {
        call.template operator()<native>(comm_);
        return {};
      }
    return call.template operator()<automatic>(async(comm_));
  }
  // The messages of a slice with blocks of these bytes. The root of a broadcast sends where others receive.
  template <collective C>
  work send(journey const& trip, slot& s, std::size_t bytes, int root) {
    std::byte* const to = C == collective::broadcast && rank() == root ? s.down.data() : s.up.data();
    return on_host([&]<class Algorithm>(auto&& comm) {
      return move_blocks_on_host<C, Algorithm>(comm, s.down.data(), to, bytes, root, trip.for_host(), trip.where());
    });
  }
  template <collective C>
  work send_ragged(journey const& trip, slot& s, blocks const& given, blocks const& got, int root) {
    return on_host([&]<class Algorithm>(auto&& comm) {
      return move_ragged_on_host<C, Algorithm>(comm, s.down.data(), given, s.up.data(), got, root, trip.for_host(),
                                               trip.where());
    });
  }

  // The received blocks of a slice, `stride` elements apart, at the place where the device combines them. This rank's
  // own block is read from the caller's buffer.
  template <class T>
  std::vector<T const*> sources(slot& s, std::size_t stride, T const* own) const {
    T const* const received = at<T>(s.up);
    T* const near = hands_over_ ? at<T>(s.up) : reinterpret_cast<T*>(s.sources.data());
    std::size_t const next = (mine() + 1) * stride;
    copy(area_.up.get(), near, received, mine() * stride);
    copy(area_.up.get(), near + next, received + next, ranks() * stride - next);
    std::vector<T const*> out;
    for (std::size_t q = 0; q < ranks(); ++q) out.push_back(q == mine() ? own : near + q * stride);
    return out;
  }

  communicator<Transport>& comm_;
  staging_area<D>& area_;
  std::size_t slice_;  // bytes
  bool hands_over_;    // the MPI gets device memory directly
};

}  // namespace tutti::detail
