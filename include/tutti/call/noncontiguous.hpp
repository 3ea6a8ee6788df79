// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays whose elements do not follow each other in memory: strided arrays, objects like std::mdspan or an Eigen matrix,
// and random-access ranges.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

#include "tutti/execute/gapped_array.hpp"

namespace tutti {

// `count` elements of which each lies `stride` elements after the one before. A negative stride goes backwards from
// `data`.
template <class T>
struct strided_span {
  T* data;
  std::size_t count;
  std::ptrdiff_t stride;
};

// Part of an array, for calls that accept a std::vector.
//
//   tutti::all_reduce(comm, tutti::strided(matrix + column, rows, columns));  // a column of a matrix stored by rows
template <class T>
strided_span<T> strided(T* data, std::size_t count, std::ptrdiff_t stride) {
  return {data, count, stride};
}

namespace detail {

// Elements at places that follow from indices, each with a count and a stride. The last index varies fastest.
template <class T, std::size_t MaxIndices>
class grid {
 public:
  using value_type = std::remove_cv_t<T>;
  static constexpr bool writable = !std::is_const_v<T>;

  explicit grid(T* data) : data_(data) {}

  // Adds an index that varies faster than those before it.
  void add(std::size_t count, std::ptrdiff_t stride) {
    is_impossible_ |= __builtin_mul_overflow(size_, count, &size_);
    if (count == 1) return;
    std::ptrdiff_t bytes = 0;
    is_impossible_ |= __builtin_mul_overflow(count, stride, &bytes) ||
                      __builtin_mul_overflow(bytes, sizeof(T), &bytes) ||
                      (bytes < 0 ? __builtin_sub_overflow(extent_, bytes, &extent_)
                                 : __builtin_add_overflow(extent_, bytes, &extent_));
    if (is_impossible_) stride = 0;
    bool const without_gap = used_ > 0 && strides_[used_ - 1] == stride * static_cast<std::ptrdiff_t>(count);
    std::size_t const at = without_gap ? used_ - 1 : used_++;
    counts_[at] = without_gap ? counts_[at] * count : count;
    strides_[at] = stride;
  }

  T* data() const { return data_; }
  // One that no memory holds if elements would be further apart than memory reaches, so that calls refuse it.
  std::size_t size() const { return is_impossible_ && size_ > 0 ? std::numeric_limits<std::size_t>::max() : size_; }
  bool has_gaps() const { return size_ > 1 && (used_ > 1 || strides_[0] != 1); }
  // The elements as an array, or null if there are gaps between them.
  T* contiguous() const { return has_gaps() ? nullptr : data_; }
  void copy_to(value_type* out) const {
    for_each_row([&](T* row, std::size_t count, std::ptrdiff_t stride) {
      copy(out, 1, row, stride, count);
      out += count;
    });
  }
  // To the first `count` elements.
  void copy_from(value_type const* in, std::size_t count) const {
    for_each_row([&](T* row, std::size_t in_row, std::ptrdiff_t stride) {
      std::size_t const copied = std::min(in_row, count);
      copy(row, stride, in, 1, copied);
      in += copied;
      count -= copied;
    });
  }
  // The same for an execution.
  gapped_array described() const {
    if (!has_gaps()) return described(data_, size_);
    bool const rows = strides_[used_ - 1] == 1;
    std::size_t const indices = used_ - (rows ? 1 : 0), run = rows ? counts_[used_ - 1] : 1;
    gapped_array out = described(data_, run);
    for (std::size_t k = 0; k < indices; ++k) out.add(counts_[k], strides_[k] * static_cast<std::ptrdiff_t>(sizeof(T)));
    return out;
  }
  // Calls f(data, count) for each run of elements that follow each other.
  template <class F>
  void for_each_run(F&& f) const {
    for_each_row([&](T* row, std::size_t count, std::ptrdiff_t stride) {
      if (stride == 1) return f(row, count);
      for (std::size_t i = 0; i < count; ++i) f(row + static_cast<std::ptrdiff_t>(i) * stride, std::size_t{1});
    });
  }

 private:
  static gapped_array described(T* data, std::size_t count) {
    return {const_cast<std::byte*>(reinterpret_cast<std::byte const*>(data)), count * sizeof(T)};
  }
  static void copy(value_type* to, std::ptrdiff_t to_stride, value_type const* from, std::ptrdiff_t from_stride,
                   std::size_t count) {
    if (from_stride == 1 && to_stride == 1) std::copy_n(from, count, to);
    else
      for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(count); ++i) to[i * to_stride] = from[i * from_stride];
  }
  // Calls f(first, count, stride) for all values of the last index.
  template <class F>
  void for_each_row(F&& f) const {
    if (used_ > 0) rows_from(0, data_, f);
    else f(data_, size_, std::ptrdiff_t{1});
  }
  template <class F>
  void rows_from(std::size_t index, T* first, F& f) const {
    if (index + 1 == used_) return f(first, counts_[index], strides_[index]);
    for (std::size_t i = 0; i < counts_[index]; ++i)
      rows_from(index + 1, first + static_cast<std::ptrdiff_t>(i) * strides_[index], f);
  }

  T* data_;
  std::size_t size_ = 1;
  std::ptrdiff_t extent_ = 0;  // at least the bytes between the outermost elements
  bool is_impossible_ = false;
  std::size_t used_ = 0;  // indices with another count than 1, adjacent ones without a gap as one
  std::array<std::size_t, MaxIndices> counts_{};
  std::array<std::ptrdiff_t, MaxIndices> strides_{};
};

// The elements of a random-access range.
template <class Range>
class indexed_range {
 public:
  using value_type = std::ranges::range_value_t<Range>;
  using reference = std::ranges::range_reference_t<Range>;
  static constexpr bool has_places = std::is_lvalue_reference_v<reference>;  // rather than values made on demand
  static constexpr bool writable = has_places && !std::is_const_v<std::remove_reference_t<reference>>;

  explicit indexed_range(Range& range) : range_(range) {}

  std::size_t size() const { return static_cast<std::size_t>(std::ranges::size(range_)); }
  value_type* contiguous() const { return nullptr; }
  void copy_to(value_type* out) const { std::ranges::copy(range_, out); }
  void copy_from(value_type const* in, std::size_t count) const {
    std::ranges::copy_n(in, static_cast<std::ptrdiff_t>(count), std::ranges::begin(range_));
  }
  template <class F>
  void for_each_run(F&& f) const {
    if constexpr (has_places)
      for (auto& element : range_) f(std::addressof(element), std::size_t{1});
  }

 private:
  // A view may be a temporary, so it is copied; another range outlives the call. Some views cannot be walked through when
  // they are const.
  mutable std::conditional_t<std::ranges::view<Range> && std::copyable<Range>, Range, std::ranges::ref_view<Range>>
      range_;
};

// An object like std::mdspan, with the default accessor.
template <class M>
concept mdspan_like = requires(M& m) {
  { M::rank() } -> std::convertible_to<std::size_t>;
  { *m.data_handle() } -> std::same_as<typename M::element_type&>;
  { m.extent(0) } -> std::convertible_to<std::size_t>;
  { m.stride(0) } -> std::convertible_to<std::ptrdiff_t>;
};

// A matrix, vector, Map or Block of Eigen; an expression of them has no data().
template <class M>
concept eigen_like = requires(M& m) {
  { M::IsRowMajor } -> std::convertible_to<bool>;
  { *m.data() } -> std::convertible_to<typename M::Scalar>;
  { m.innerSize() } -> std::convertible_to<std::ptrdiff_t>;
  { m.outerSize() } -> std::convertible_to<std::ptrdiff_t>;
  { m.innerStride() } -> std::convertible_to<std::ptrdiff_t>;
  { m.outerStride() } -> std::convertible_to<std::ptrdiff_t>;
};

template <class T>
grid<T, 1> noncontiguous(strided_span<T> const& s) {
  grid<T, 1> out(s.data);
  out.add(s.count, s.stride);
  return out;
}
template <mdspan_like M>
auto noncontiguous(M& m) {
  grid<typename M::element_type, M::rank() + 1> out(m.data_handle());
  for (std::size_t i = 0; i < M::rank(); ++i)
    out.add(static_cast<std::size_t>(m.extent(i)), static_cast<std::ptrdiff_t>(m.stride(i)));
  return out;
}
// In the order of its storage.
template <eigen_like M>
auto noncontiguous(M& m) {
  grid<std::remove_pointer_t<decltype(m.data())>, 2> out(m.data());
  out.add(static_cast<std::size_t>(m.outerSize()), m.outerStride());
  out.add(static_cast<std::size_t>(m.innerSize()), m.innerStride());
  return out;
}
template <std::ranges::random_access_range R>
  requires std::ranges::sized_range<R> && (!std::ranges::contiguous_range<R>) && (!eigen_like<R>)
auto noncontiguous(R& range) {
  return indexed_range<R>(range);
}

template <class R>
concept noncontiguous_array = requires(R& r) { noncontiguous(r); } && !std::ranges::contiguous_range<R>;

// The elements of `R`, a type of which noncontiguous_array is true.
template <noncontiguous_array R>
using noncontiguous_elements = decltype(noncontiguous(std::declval<std::remove_reference_t<R>&>()));

// A temporary that only refers to elements.
template <class R>
inline constexpr bool refers_to_elements = std::ranges::borrowed_range<R>;
template <class T>
inline constexpr bool refers_to_elements<strided_span<T>> = true;
template <mdspan_like M>
inline constexpr bool refers_to_elements<M> = true;
template <eigen_like M>
inline constexpr bool refers_to_elements<M> = !std::is_same_v<M, typename M::PlainObject>;

}  // namespace detail
}  // namespace tutti
