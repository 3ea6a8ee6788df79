// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that tests pass in place of vectors: strided, reversed, of several dimensions. What lies between their elements must not change.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::testing {

// An array as std::mdspan describes it.
template <class T, std::size_t Rank>
struct mdspan_view {
  using element_type = T;

  T* data;
  std::array<std::size_t, Rank> extents, strides;

  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return data; }
  std::size_t extent(std::size_t r) const { return extents[r]; }
  std::size_t stride(std::size_t r) const { return strides[r]; }
};

inline std::size_t rows_of(std::size_t count) {
  for (std::size_t const rows : {7u, 5u, 3u, 2u})
    if (count % rows == 0) return rows;
  return 1;
}

// -- Kinds of arrays of n elements: their memory, the index in it of element i, and the array that is passed.

struct strided_array {
  std::size_t n;

  std::size_t memory() const { return 3 * n + 1; }
  std::size_t place(std::size_t i) const { return 3 * i + 1; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return strided(memory.data() + 1, n, 3);
  }
};
struct reversed_array {
  std::size_t n;

  std::size_t memory() const { return 2 * n + 1; }
  std::size_t place(std::size_t i) const { return 2 * (n - i); }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return strided(memory.data() + 2 * n, n, -2);
  }
};
struct dense_matrix {
  std::size_t n, rows = rows_of(n), columns = n / rows;

  std::size_t memory() const { return n; }
  std::size_t place(std::size_t i) const { return i; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return mdspan_view<T, 2>{memory.data(), {rows, columns}, {columns, 1}};
  }
};
struct padded_rows {
  std::size_t n, rows = rows_of(n), columns = n / rows;

  std::size_t memory() const { return n + 2 * rows; }
  std::size_t place(std::size_t i) const { return i / columns * (columns + 2) + i % columns; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return mdspan_view<T, 2>{memory.data(), {rows, columns}, {columns + 2, 1}};
  }
};
struct transposed_matrix {
  std::size_t n, rows = rows_of(n), columns = n / rows;

  std::size_t memory() const { return n; }
  std::size_t place(std::size_t i) const { return i % columns * rows + i / columns; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return mdspan_view<T, 2>{memory.data(), {rows, columns}, {1, rows}};
  }
};
// Of rank 3, with gaps between the rows and between the layers.
struct padded_layers {
  std::size_t n, layers = rows_of(n), rows = rows_of(n / layers), columns = n / layers / rows, row = columns + 1,
                 layer = rows * row + 2;

  std::size_t memory() const { return layers * layer; }
  std::size_t place(std::size_t i) const {
    return i / (rows * columns) * layer + i / columns % rows * row + i % columns;
  }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return mdspan_view<T, 3>{memory.data(), {layers, rows, columns}, {layer, row, 1}};
  }
};
struct reversed_view {
  std::size_t n;

  std::size_t memory() const { return n; }
  std::size_t place(std::size_t i) const { return n - 1 - i; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    return std::span(memory).first(n) | std::views::reverse;
  }
};

template <class T>
bool same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Kind, class T>
struct filled_array {
  explicit filled_array(std::vector<T> const& values)
      : kind{values.size()}, memory(kind.memory(), T(-77)), array(kind.of(memory)) {
    write(memory, values);
    before = memory;
  }
  filled_array(filled_array const&) = delete;

  // Whether it has these elements and nothing else has changed.
  bool has(std::vector<T> const& values) const {
    std::vector<T> expected = before;
    write(expected, values);
    return same_bytes(expected, memory);
  }

  void write(std::vector<T>& to, std::vector<T> const& values) const {
    T* const elements = to.data();
    for (std::size_t i = 0; T const value : values) elements[kind.place(i++)] = value;
  }

  Kind kind;
  std::vector<T> memory, before;
  decltype(std::declval<Kind>().of(std::declval<std::vector<T>&>())) array;
};

}  // namespace tutti::testing
