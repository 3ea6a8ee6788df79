// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The window of ranks that are processes with a device each.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <string>

#include "tutti/call/check_arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/api/local_window.hpp"
#include "tutti/device/api/window.hpp"
#include "tutti/device/api/window_map.hpp"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/device/model/zeros.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

namespace detail {

// What all ranks must pass alike.
struct window_card {
  std::size_t size, element_bytes;
  int blocks, packets;
  std::chrono::nanoseconds timeout;

  friend bool operator==(window_card const&, window_card const&) = default;
  std::string text() const {
    std::string const how_long =
        timeout.count() == 0 ? ""
                             : join({", with a timeout of ", std::chrono::duration<double>(timeout).count(), " s"});
    return join({size, " x ", element_bytes, " bytes for ", blocks, " blocks and ", packets, " packets", how_long});
  }
};
[[noreturn, gnu::cold]] inline void refuse_different_windows(int rank, window_card const& first, int q,
                                                             window_card const& other, std::source_location where) {
  refuse(rank, join({"rank 0 opens a window of ", first.text(), ", rank ", q, " one of ", other.text()}),
         "open windows of the same size, with the same options, at all ranks", where);
}

}  // namespace detail

// A window of the ranks of a cuda_ipc, whose memory lives as long as that does; see cuda_ipc::allocate. All kernels that use it must
// have ended before the cuda_ipc is destroyed.
template <element T, class D, transport Transport>
class ipc_window {
 public:
  // `usual`: the stream that wait() waits for if it names none.
  ipc_window(cuda_ipc<D, Transport>& ranks, std::size_t size, window_options const& o, std::source_location where,
             detail::stream_of<D> usual = {})
      : ranks_{&ranks}, size_{size}, usual_{usual} {
    auto* const group = ranks.shared_group();
    if (group != nullptr)
      expect_same_at_all_ranks(*group, o, where);  // first, so that what is refused is so at all ranks
    if (!detail::is_possible_size<T>(size)) detail::refuse_impossible_size(rank(), "a window", size, where);
    map_ = detail::window_map::checked(ranks.size(), o, ranks.usual_timeout());
    if (group != nullptr) open_among(*group, where);
    else open_alone();
  }

  int rank() const { return ranks_->rank(); }
  int ranks() const { return map_.ranks; }
  std::size_t size() const { return size_; }
  // What kernels get.
  window<T> on_device() const { return {map_, rank(), size_}; }
  // The elements of this rank, in memory of its device. Peers read them in place in collectives with device_options::symmetric.
  std::span<T> local() const { return {reinterpret_cast<T*>(map_.data(rank())), size_}; }

  // Waits for the work of a stream, and throws the fault of all ranks, as cuda_ipc::work does: also that a kernel has given up.
  // timeout then names the rank that it waited for; rank_lost, one whose process has ended. Kernels of the stream end before it
  // throws, unless that takes longer than TUTTI_TIMEOUT.
  void wait(detail::passed_stream<D> stream = {}, std::source_location where = std::source_location::current()) const {
    detail::stream_of<D> its = stream;
    if (its == detail::stream_of<D>{}) its = usual_;
    try {
      ranks_->work(its, where).wait();
    } catch (...) {
      let_kernels_end(its);
      throw;
    }
    expect_no_fault(where);
  }
  // The same for work that is known to have ended.
  void expect_no_fault(std::source_location where = std::source_location::current()) const {
    if (alone_) return alone_->report.expect_none(where);
    auto& watch = ranks_->shared_group()->watch();
    watch.expect_no_report(where);
    watch.expect_no_fault(where);
  }

 private:
  struct single {
    single(D const& on, detail::window_map const& map, std::size_t data_bytes)
        : report(on), post(detail::make_post(on, map, data_bytes)) {}
    detail::report_memory<D> report;
    detail::device_array<D, std::byte> post;
  };

  // After a fault, kernels give up soon, but use memory of the cuda_ipc until then. If they take too long, its destructor waits for
  // them too.
  [[gnu::cold]] void let_kernels_end(detail::stream_of<D> stream) const noexcept {
    try {
      if (auto* const group = ranks_->shared_group()) {
        group->order(stream);
        group->note_end(stream);
      }
      ranks_->on().wait(stream, detail::deadline::after(ranks_->usual_timeout()));
    } catch (...) {  // the exception being thrown says more
    }
  }

  template <class Group>
  void open_among(Group& group, std::source_location where) {
    if (!group.own_devices())
      detail::refuse(rank(),
                     "a window was opened among processes that share a device, where kernels run in turn, so that one "
                     "which waits for another would wait in vain",
                     "give every rank a device of its own, or make tutti::cuda_local of the ranks of one process",
                     where);
    auto const posts = group.memory().allocate(
        map_.post_bytes(size_ * sizeof(T)),
        [&](std::byte* own) { detail::write_zeros(ranks_->on(), own, map_.data_begin(), group.timeout()); }, where);
    for (std::size_t q = 0; q < posts.size(); ++q) map_.posts[q] = posts[q];
    detail::device_board const board = group.board();
    map_.fault = group.on_device(board.first_fault());
    map_.report = group.on_device(board.rank(rank()).report);
    group.expect_kernels_of_windows();
  }
  void open_alone() {
    alone_ = std::make_shared<single>(ranks_->on(), map_, size_ * sizeof(T));
    map_.posts[0] = alone_->post.data();
    map_.fault = map_.report = &alone_->report.word();
  }
  template <class Group>
  void expect_same_at_all_ranks(Group& group, window_options const& o, std::source_location where) const {
    auto const all = group.exchange(detail::window_card{size_, sizeof(T), o.blocks, o.packets, o.timeout}, where);
    for (std::size_t q = 1; q < all.size(); ++q)
      if (all[q] != all[0]) detail::refuse_different_windows(rank(), all[0], static_cast<int>(q), all[q], where);
  }

  cuda_ipc<D, Transport>* ranks_;
  detail::window_map map_{};
  std::size_t size_;
  detail::stream_of<D> usual_;
  std::shared_ptr<single const> alone_;  // of a single rank
};

// Opens a window of `size` elements for each rank, whose contents are undefined. All ranks call it together, with the same size and
// options. Memory as for cuda_local. From then on, a rank that destroys its cuda_ipc because of an exception ends the kernels of all
// (rank_left).
//
// Throws error, at all ranks: bad_argument, if ranks share a device or disagree, for options that are not supported, or a size
// that no memory holds; system, if a device has too little memory; the errors of all_gather.
//
//   tutti::cuda_ipc ranks(comm, gpu);
//   auto shared = tutti::open_window<float>(ranks, 1000);
//   tutti::launch_together(gpu, stream, 1, 256, kernel, shared.on_device());
//   shared.wait(stream);
template <element T, detail::sharing_device D, transport Transport>
  requires detail::cooperative_device<D> && detail::staging_device<D>
[[nodiscard]] ipc_window<T, D, Transport> open_window(cuda_ipc<D, Transport>& ranks, std::size_t size,
                                                      window_options const& o = {},
                                                      std::source_location where = std::source_location::current()) {
  return {ranks, size, o, where};
}

}  // namespace tutti
