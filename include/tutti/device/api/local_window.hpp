// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The window of virtual ranks: memory for each of them on the devices of one process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/api/window.hpp"
#include "tutti/device/api/window_map.hpp"
#include "tutti/device/local/ranks.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/device/model/kernel_report.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/device/model/zeros.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

namespace detail {

// A word of pinned memory in which kernels of one process report, and by which they stop each other.
template <staging_device D>
class report_memory {
 public:
  explicit report_memory(D const& on) : memory_(on, sizeof(std::uint32_t), true) { store_host_word(word(), 0); }

  std::uint32_t& word() const { return *reinterpret_cast<std::uint32_t*>(memory_.data()); }
  // Throws if a kernel has given up.
  void expect_none(std::source_location where) const {
    std::uint32_t const found = load_host_word(word());
    if (found == 0) return;
    auto const what = kernel_report::from(found);
    throw error(
        {.code = what.code(),
         .rank = what.rank,
         .peer = what.peer,
         .what = what.text(),
         .way_out = join({what.kind == kernel_report::missing
                              ? "let every rank's kernel signal as often as its peers wait, in blocks that run at once"
                              : kernel_report::correction,
                          "; this window can no longer be used"}),
         .where = where});
  }

 private:
  message_memory<D> memory_;
};

// The memory of some ranks' posts, zeroed as far as the map says.
template <device D>
device_array<D, std::byte> make_post(D const& on, window_map const& map, std::size_t data_bytes) {
  device_array<D, std::byte> out(on, map.post_bytes(data_bytes));
  write_zeros(on, out.data(), map.data_begin());
  return out;
}

}  // namespace detail

// Owns the memory of a window of virtual ranks. The ranks' devices must outlive it, and it must outlive the kernels that use it.
template <element T, detail::staging_device D>
class local_window {
 public:
  template <class Reach>
  local_window(cuda_local<D, Reach> const& ranks, std::size_t size, window_options const& o, std::source_location where)
      : map_{detail::window_map::checked(ranks.size(), o, detail::settings::from_environment().timeout)},
        size_{size},
        report_(std::make_unique<detail::report_memory<D>>(ranks.on())) {
    if (!detail::is_possible_size<T>(size)) detail::refuse_impossible_size(no_rank_of_its_own, "a window", size, where);
    for (int k = 0; k < ranks.team().size(); ++k) devices_.push_back(&ranks.team().at(k));
    for (int r = 0; r < ranks.size(); ++r)
      map_.posts[r] = posts_.emplace_back(detail::make_post(ranks.on(r), map_, size * sizeof(T))).data();
    map_.fault = map_.report = &report_->word();
  }

  int ranks() const { return map_.ranks; }
  std::size_t size() const { return size_; }
  // What kernels get: the window as a rank sees it. A kernel with blocks of several ranks may get that of any.
  window<T> on_device(int rank = 0) const { return {map_, rank, size_}; }
  // The elements of a rank, in memory of its device.
  std::span<T> of(int rank) const { return {reinterpret_cast<T*>(map_.data(rank)), size_}; }

  // Waits for the work of a stream, and throws error if a kernel has given up: timeout, which names the rank that it waited for,
  // or bad_argument. `device`: whose stream it is, by its number among those of the ranks.
  void wait(detail::passed_stream<D> stream = {}, int device = 0,
            std::source_location where = std::source_location::current()) const {
    auto until = detail::deadline::after(std::chrono::nanoseconds(map_.limit));
    until.postpone(detail::settings::from_environment().timeout);
    devices_.at(static_cast<std::size_t>(device))->wait(stream, until);
    expect_no_fault(where);
  }
  // The same for work that is known to have ended.
  void expect_no_fault(std::source_location where = std::source_location::current()) const {
    report_->expect_none(where);
  }

 private:
  static constexpr int no_rank_of_its_own = -1;

  detail::window_map map_;
  std::size_t size_;
  std::unique_ptr<detail::report_memory<D>> report_;
  std::vector<D const*> devices_;
  std::vector<detail::device_array<D, std::byte>> posts_;  // by rank
};

// Opens a window of `size` elements for each virtual rank, whose contents are undefined. A post takes 0.5 KiB for each block and
// rank, and 32 bytes for each block, rank and packet, besides the elements.
//
// Throws error: bad_argument, for options that are not supported, or a size that no memory holds; system, if a device has too little
// memory.
//
//   tutti::cuda_local ranks(gpus, 4);
//   auto shared = tutti::open_window<float>(ranks, 1000);
//   tutti::launch_together(gpu, stream, 4, 256, kernel, shared.on_device());
//   shared.wait(stream);
template <element T, detail::staging_device D, class Reach>
[[nodiscard]] local_window<T, D> open_window(cuda_local<D, Reach> const& ranks, std::size_t size,
                                             window_options const& o = {},
                                             std::source_location where = std::source_location::current()) {
  return {ranks, size, o, where};
}

}  // namespace tutti
