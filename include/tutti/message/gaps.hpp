// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of arrays with gaps: a contiguous copy of the elements travels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/noncontiguous.hpp"
#include "tutti/started/buffer_check.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// The copy, which lasts as long as the message may be started.
class gap_copy {
 public:
  gap_copy() = default;
  gap_copy(gap_copy const&) = delete;
  gap_copy& operator=(gap_copy const&) = delete;
  virtual ~gap_copy() = default;

  virtual void pack() = 0;                     // before a send starts
  virtual void unpack(std::size_t bytes) = 0;  // after a receive of as many bytes
  virtual void list_buffers(buffers_in_use& use, bool sends) const = 0;
};

template <class Array>
class gap_copy_of final : public gap_copy {
 public:
  using element = typename Array::value_type;

  explicit gap_copy_of(Array const& array)
      : array_(array), memory_(static_cast<std::byte*>(::operator new(array.size() * sizeof(element), alignment))) {}

  element* data() const { return reinterpret_cast<element*>(memory_.get()); }
  void pack() override { array_.copy_to(data()); }
  void unpack(std::size_t bytes) override {
    if constexpr (Array::writable) array_.copy_from(data(), bytes / sizeof(element));
  }
  void list_buffers(buffers_in_use& use, bool sends) const override {
    array_.for_each_run([&](auto* data, std::size_t count) {
      if (sends) use.reads(data, count * sizeof *data);
      else use.writes(data, count * sizeof *data);
    });
  }

 private:
  static constexpr std::align_val_t alignment{std::max(alignof(element), cache_line)};
  struct free_memory {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };

  Array array_;
  std::unique_ptr<std::byte, free_memory> memory_;
};

// The array of a message: its elements, or their copy.
template <class T>
struct message_array {
  std::span<T> elements;
  std::shared_ptr<gap_copy> gaps{};  // null if there are none
};

template <class T, std::size_t Extent>
message_array<T> message_array_of(std::span<T, Extent> array) {
  return {array};
}
// T may be const where elements are only read.
template <class T, class Array>
message_array<T> message_array_of(Array const& array) {
  if (auto* const data = array.contiguous()) return {std::span<T>(data, array.size())};
  auto copy = std::make_shared<gap_copy_of<Array>>(array);
  return {std::span<T>(copy->data(), array.size()), copy};
}

}  // namespace tutti::detail
