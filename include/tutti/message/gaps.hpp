// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of arrays with gaps: a contiguous copy of the elements travels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "tutti/call/packed_arrays.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/started/buffer_check.hpp"

namespace tutti::detail {

// The copy, which lasts as long as the message may be started.
class gap_copy {
 public:
  gap_copy() = default;
  gap_copy(gap_copy const&) = delete;
  gap_copy& operator=(gap_copy const&) = delete;
  virtual ~gap_copy() = default;

  // Called before the message starts, and when it has ended.
  void begin(transfer const& message) {
    if (message.what == transfer::send) pack();
  }
  void end(transfer const& message) {
    if (message.what == transfer::receive) unpack(message.got);
  }
  virtual void list_buffers(buffers_in_use& use, bool sends) const = 0;

 private:
  virtual void pack() = 0;
  virtual void unpack(std::size_t bytes) = 0;
};
using shared_gaps = std::shared_ptr<gap_copy>;  // null if there are no gaps

template <class Array>
class gap_copy_of final : public gap_copy {
 public:
  explicit gap_copy_of(Array const& array) : array_(array, true), memory_(allocate_aligned(array_.bytes())) {
    array_.place(memory_.get());
  }

  auto elements() const { return array_.elements(); }
  void list_buffers(buffers_in_use& use, bool sends) const override {
    array_.for_each_run([&](auto* data, std::size_t count) {
      if (sends) use.reads(data, count * sizeof *data);
      else use.writes(data, count * sizeof *data);
    });
  }

 private:
  void pack() override { array_.pack(); }
  void unpack(std::size_t bytes) override { array_.unpack(bytes / sizeof(typename Array::value_type)); }

  packed_array<Array> array_;
  aligned_memory memory_;
};

// The array of a message: its elements, or their copy.
template <class T>
struct message_array {
  std::span<T> elements;
  shared_gaps gaps{};
};

// Inlined for the reason that arrays_for gives.
template <class T, std::size_t Extent>
[[gnu::always_inline]] inline message_array<T> message_array_of(std::span<T, Extent> array) {
  return {array};
}
// T may be const where elements are only read.
template <class T, class Array>
message_array<T> message_array_of(Array const& array) {
  if (auto* const data = array.contiguous()) return {std::span<T>(data, array.size())};
  auto const copy = std::make_shared<gap_copy_of<Array>>(array);
  return {copy->elements(), copy};
}

}  // namespace tutti::detail
