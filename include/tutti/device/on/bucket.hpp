// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory in which small arrays share a call, kept from call to call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>

#include "tutti/collective/all_or_none.hpp"
#include "tutti/collective/coalesced.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/growth.hpp"

namespace tutti::detail {

template <marking_device D>
class device_bucket {
 public:
  explicit device_bucket(D const& on) : on_{on}, memory_{on}, last_{on} {}

  // Calls use(memory) to give work to the stream, after earlier work in the bucket, whatever its stream. All ranks call it with
  // the same number of elements.
  template <class T, transport Transport, class Use>
  void with(communicator<Transport>& comm, std::size_t count, stream_of<D> stream, std::source_location where,
            Use const& use) {
    bool const captured = on_.capturing(stream);
    memory_.expect_allocated(count * sizeof(T), stream, comm.rank(), "a list of this size", where);
    std::byte* const memory = memory_.get(count * sizeof(T), [&](function_ref<void()> allocate) {
      all_or_none(comm, "allocate memory for a list of arrays", where, allocate);
    });
    if (!captured) last_.before(stream);
    auto const note_end = [&] {
      if (!captured) last_.record(stream);
    };
    try {
      use(reinterpret_cast<T*>(memory));
    } catch (...) {
      note_end();  // of the work that it has given before
      throw;
    }
    note_end();
  }

  // Copies arrays into the bucket, one after the other, or back, in as few launches as their number allows.
  template <class T>
  void fill(stream_of<D> stream, T* bucket, std::span<piece<T> const> pieces) const {
    copy<T>(stream, pieces, [&](piece<T> const& p, std::size_t at) { return block_of(p.in, bucket + at); });
  }
  template <class T>
  void empty(stream_of<D> stream, T const* bucket, std::span<piece<T> const> pieces) const {
    copy<T>(stream, pieces, [&](piece<T> const& p, std::size_t at) { return block_of(bucket + at, p.out); });
  }

 private:
  template <class T>
  using block = typename block_moves<word_of<T>>::block;

  template <class T>
  static block<T> block_of(T const* from, T* to) {
    return {reinterpret_cast<word_of<T> const*>(from), reinterpret_cast<word_of<T>*>(to), 0};
  }
  template <class T, class Ends>
  void copy(stream_of<D> stream, std::span<piece<T> const> pieces, Ends const& ends) const {
    std::size_t at = 0;
    for (std::size_t first = 0; first < pieces.size(); first += max_destinations) {
      block_moves<word_of<T>> moves{};
      for (piece<T> const& p : pieces.subspan(first, std::min<std::size_t>(max_destinations, pieces.size() - first))) {
        block<T> const where = ends(p, at);
        moves.add(where.from, where.to, p.count * words_in<T>);
        at += p.count;
      }
      if (moves.count > 0) on_.launch(stream, moves.items(), moves);
    }
  }

  D const& on_;
  growing_memory<D> memory_;
  device_event<D> last_;  // the end of the last work
};

}  // namespace tutti::detail
