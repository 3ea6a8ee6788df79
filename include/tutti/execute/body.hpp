// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How an execution on the host treats elements: it combines them, or only moves them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/core/shape.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// An operation that is known only at run time has its own loop over elements, which does what tutti::detail::combine does.
template <class Op, class T>
concept brings_its_loop = requires(Op const& op, T const* const* sources, T* const* destinations, std::size_t n) {
  op.combine(sources, 1, destinations, 1, n, stage{});
};

// The loop of one element type and one operation over lists of bytes. An execution calls it once a slice, so the code that
// walks through a schedule depends on neither and is compiled once. It throws what the operation throws.
struct element_loop {
  void (*run)(void const* op, std::byte const* const* sources, int source_count, std::byte* const* destinations,
              int destination_count, std::size_t bytes, stage s);
  std::uint32_t element_bytes;
  std::uint32_t alignment;
  bool prepares;
};

// How an execution on the host treats elements. It counts them in bytes.
struct byte_body {
  using element = std::byte;

  element_loop const* loop;
  void const* op;

  TUTTI_HOST_DEVICE bool prepares() const noexcept { return loop->prepares; }
  TUTTI_HOST_DEVICE std::size_t alignment() const noexcept { return loop->alignment; }
  // How many of these bytes make whole elements. They are at most a slice, so a division of 32 bits is enough.
  TUTTI_HOST_DEVICE std::size_t whole_elements(std::size_t bytes) const noexcept {
    return bytes - static_cast<std::uint32_t>(bytes) % loop->element_bytes;
  }

  TUTTI_CALLS_ANY [[gnu::always_inline]] TUTTI_HOST_DEVICE void operator()(std::byte const* const* sources,
                                                                           int source_count,
                                                                           std::byte* const* destinations,
                                                                           int destination_count, std::size_t bytes,
                                                                           stage s) const {
    loop->run(op, sources, source_count, destinations, destination_count, bytes, s);
  }
};

inline void copy_bytes(void const*, std::byte const* const* sources, int, std::byte* const* destinations,
                       int destination_count, std::size_t bytes, stage s) noexcept {
  copy(one_thread{}, sources[0], destinations, destination_count, bytes, s.stream);
}
inline constexpr element_loop byte_loop{copy_bytes, 1, 1, false};

// A list of pointers to bytes, as pointers to T. The list itself stays as it is, because a `T*` must not alias a `std::byte*`.
template <class T, class Byte>
struct elements_at {
  Byte* const* bytes;
  T* operator[](int k) const noexcept { return reinterpret_cast<T*>(bytes[k]); }
};

// Outside the class, where `extern template` keeps other programs from compiling it.
template <class T, class Op>
struct combining_bytes {
  static void run(void const* op, std::byte const* const* sources, int source_count, std::byte* const* destinations,
                  int destination_count, std::size_t bytes, stage s);
};
template <class T, class Op>
void combining_bytes<T, Op>::run(void const* op, std::byte const* const* sources, int source_count,
                                 std::byte* const* destinations, int destination_count, std::size_t bytes, stage s) {
  auto const& operation = *static_cast<Op const*>(op);
  elements_at<T const, std::byte const> const from{sources};
  elements_at<T, std::byte> const to{destinations};
  if constexpr (brings_its_loop<Op, T>) {
    T const* all_sources[max_ranks];
    T* all_destinations[max_ranks];
    for (int k = 0; k < source_count; ++k) all_sources[k] = from[k];
    for (int k = 0; k < destination_count; ++k) all_destinations[k] = to[k];
    operation.combine(all_sources, source_count, all_destinations, destination_count, bytes / sizeof(T), s);
  } else if (source_count == 1 && !changes<T, Op>(s)) {
    copy_bytes(nullptr, sources, 1, destinations, destination_count, bytes, s);
  } else {
    combine_lists<T>(one_thread{}, from, source_count, to, destination_count, bytes / sizeof(T), operation, s);
  }
}

template <class T, class Op>
inline constexpr element_loop loop_of{combining_bytes<T, Op>::run, sizeof(T), alignof(T),
                                      has_prepare<Op, accumulator_for<Op, T>>};

// The type and the operation of a call that combines.
template <class T, class Op>
struct reducing {
  using element = T;
  static constexpr bool reduces = true;
  static constexpr bool prepares = has_prepare<Op, accumulator_for<Op, T>>;
  static constexpr bool finishes = has_finish<Op, accumulator_for<Op, T>>;
  static_assert(
      alignof(T) <= cache_line,
      "elements that are combined may be aligned to at most a cache line (64 bytes); declare their struct with "
      "alignas(64) or less");

  Op const& op;

  byte_body in_bytes() const noexcept { return {&loop_of<T, Op>, &op}; }
};

// A call that only moves elements moves bytes, so it is compiled once for all types.
struct moving {
  using element = std::byte;
  static constexpr bool reduces = false;
  static constexpr bool prepares = false;
  static constexpr bool finishes = false;

  byte_body in_bytes() const noexcept { return {&byte_loop, nullptr}; }
};

}  // namespace tutti::detail
