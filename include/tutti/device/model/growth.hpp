// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that calls keep and that grows with their messages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// How many bytes to allocate if a call needs `needed`, more than the `had` bytes of the newest memory. Older memory is never
// released, because graphs and pending calls may refer to it. So each size is at least twice the previous one: however slowly
// messages grow, all memory together is less than four times what the largest call needed. The first size exceeds what the call
// needs by an eighth at most, so a program whose first call is its largest pays no more than that.
constexpr std::size_t grown_size(std::size_t needed, std::size_t had) {
  std::size_t const step = std::max<std::size_t>(std::bit_floor(needed) / 8, 256);
  return std::max((needed + step - 1) / step * step, 2 * had);
}

// Memory of a device, whose newest piece is in use.
template <device D>
class growing_memory {
 public:
  explicit growing_memory(D const& on) : on_{&on} {}

  // The memory of a call that needs so many bytes; null if no call has needed any yet.
  std::byte* get(std::size_t bytes) {
    return get(bytes, [](auto const& allocate) { allocate(); });
  }
  // The same among ranks that pass the same sizes. together(allocate) calls allocate() at all of them, and throws at all of them
  // if one has failed. Then all drop what they have allocated: otherwise only some ranks would meet at the next call. No rank launches a kernel
  // before all have their memory: to allocate can mean to wait until all GPUs of the process are idle, and a kernel of another rank
  // would wait for this one.
  template <class Together>
  std::byte* get(std::size_t bytes, Together const& together) {
    if (bytes > size()) {
      piece fresh;
      together([&] { fresh = std::make_shared<device_array<D, std::byte> const>(*on_, grown_size(bytes, size())); });
      pieces_.push_back(std::move(fresh));
    }
    return pieces_.empty() ? nullptr : pieces_.back()->data();
  }
  // Throws error, bad_argument, if the first call `with` so many bytes is being captured into a graph: ranks meet to allocate, which a
  // rank that captures should not wait for.
  void expect_allocated(std::size_t bytes, stream_of<D> stream, int rank, std::string_view with,
                        std::source_location where) const
    requires marking_device<D>
  {
    if (bytes > size() && on_->capturing(stream))
      throw error({.code = error_code::bad_argument,
                   .rank = rank,
                   .what = join({"the first call with ", with, " is being captured into a graph, and needs memory"}),
                   .way_out = "make the call once before the capture",
                   .where = where});
  }

  // keep(piece) for each, which may then outlive this object.
  template <class Keep>
  void hand_over(Keep const& keep) {
    for (piece& one : pieces_) keep(std::move(one));
    pieces_.clear();
  }

 private:
  using piece = std::shared_ptr<device_array<D, std::byte> const>;

  std::size_t size() const { return pieces_.empty() ? 0 : pieces_.back()->size(); }

  D const* on_;
  std::vector<piece> pieces_;
};

}  // namespace tutti::detail
