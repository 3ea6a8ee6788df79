// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that are not contiguous: every collective gives the results that it gives on vectors, and leaves the memory between
// the elements alone.
// labels: alone processes
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "started/async.hpp"
#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// A matrix as std::mdspan describes it.
template <class T>
struct matrix_view {
  using element_type = T;

  T* data;
  std::array<std::size_t, 2> extents, strides;

  static constexpr std::size_t rank() { return 2; }
  T* data_handle() const { return data; }
  std::size_t extent(std::size_t r) const { return extents[r]; }
  std::size_t stride(std::size_t r) const { return strides[r]; }
};

std::size_t rows_of(std::size_t count) {
  for (std::size_t const rows : {7u, 5u, 3u, 2u})
    if (count % rows == 0) return rows;
  return 1;
}

// -- Kinds of arrays of n elements: their memory, the index in it of element i, and the array that is passed.

struct strided_array {
  static std::size_t memory(std::size_t n) { return 3 * n + 1; }
  static std::size_t place(std::size_t, std::size_t i) { return 3 * i + 1; }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    return strided(memory.data() + 1, n, 3);
  }
};
struct reversed_array {
  static std::size_t memory(std::size_t n) { return 2 * n + 1; }
  static std::size_t place(std::size_t n, std::size_t i) { return 2 * (n - i); }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    return strided(memory.data() + 2 * n, n, -2);
  }
};
struct dense_array {
  static std::size_t memory(std::size_t n) { return n; }
  static std::size_t place(std::size_t, std::size_t i) { return i; }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    return matrix_view<T>{memory.data(), {rows_of(n), n / rows_of(n)}, {n / rows_of(n), 1}};
  }
};
struct padded_rows {
  static std::size_t memory(std::size_t n) { return n + 2 * rows_of(n); }
  static std::size_t place(std::size_t n, std::size_t i) {
    std::size_t const columns = n / rows_of(n);
    return columns == 0 ? 0 : i / columns * (columns + 2) + i % columns;
  }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    std::size_t const columns = n / rows_of(n);
    return matrix_view<T>{memory.data(), {rows_of(n), columns}, {columns + 2, 1}};
  }
};
struct transposed {
  static std::size_t memory(std::size_t n) { return n; }
  static std::size_t place(std::size_t n, std::size_t i) {
    std::size_t const rows = rows_of(n), columns = n / rows;
    return columns == 0 ? 0 : i % columns * rows + i / columns;
  }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    return matrix_view<T>{memory.data(), {rows_of(n), n / rows_of(n)}, {1, rows_of(n)}};
  }
};
struct eigen_block {
  static std::size_t memory(std::size_t n) { return (n / rows_of(n)) * (rows_of(n) + 3); }
  static std::size_t place(std::size_t n, std::size_t i) { return i / rows_of(n) * (rows_of(n) + 3) + i % rows_of(n); }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    auto const rows = static_cast<Eigen::Index>(rows_of(n)), columns = static_cast<Eigen::Index>(n) / rows;
    using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
    return Eigen::Map<matrix, 0, Eigen::OuterStride<>>(memory.data(), rows, columns, Eigen::OuterStride<>(rows + 3));
  }
};
struct reversed_view {
  static std::size_t memory(std::size_t n) { return n; }
  static std::size_t place(std::size_t n, std::size_t i) { return n - 1 - i; }
  template <class T>
  static auto of(std::vector<T>& memory, std::size_t n) {
    return std::span(memory).first(n) | std::views::reverse;
  }
};

template <class Kind, class T>
struct filled_array {
  explicit filled_array(std::vector<T> const& values)
      : size(values.size()), memory(Kind::memory(size), T(-77)), array(Kind::of(memory, size)) {
    for (std::size_t i = 0; i < size; ++i) memory[Kind::place(size, i)] = values[i];
    before = memory;
  }
  filled_array(filled_array const&) = delete;

  // Whether it has these elements and nothing else has changed.
  bool has(std::vector<T> const& values) const {
    std::vector<T> expected = before;
    for (std::size_t i = 0; i < size; ++i) expected[Kind::place(size, i)] = values[i];
    return expected == memory;
  }

  std::size_t size;
  std::vector<T> memory, before;
  decltype(Kind::of(std::declval<std::vector<T>&>(), 0)) array;
};

enum class ways { blocking, started, prepared, batch };

template <class In, class Out, class T, class Comm>
void check_calls(Comm& comm, std::size_t count, ways way, options const& o = {}) {
  using calls = every_call<T, sum>;
  calls const kind(comm.rank(), comm.size(), count, o);
  for (int k = 0; k < calls::kinds; ++k) {
    auto plain = kind.make(k);
    filled_array<In, T> in(plain.in);
    filled_array<Out, T> out(plain.out);
    auto counts = plain.counts;
    kind.call(k, comm, plain);
    switch (way) {
      case ways::blocking: kind.call(k, comm, in.array, out.array, counts); break;
      case ways::started: kind.call(k, async(comm), in.array, out.array, counts).wait(); break;
      case ways::prepared: {
        persistent const again = kind.call(k, tutti::prepared(comm), in.array, out.array, counts);
        for (int turn = 0; turn < 2; ++turn) {
          // The array of a broadcast is an input too.
          if (k == 6) out.memory = out.before;
          persistent(again).start();
          persistent(again).wait();
        }
        break;
      }
      case ways::batch: {
        tutti::batch all(comm);
        kind.call(k, all, in.array, out.array, counts);
        all.run();
      }
    }
    std::string const what = "collective " + std::to_string(k) + " of " + std::to_string(count) + " elements";
    expect(out.has(plain.out), what + " has another result, or writes between the elements");
    expect(in.has(plain.in), what + " writes its input");
  }
}

template <class In, class Out, class Comm>
void check_every_way(Comm& comm) {
  for (std::size_t const count : {0u, 1u, 5u, 300u, 21000u})
    for (ways const way : {ways::blocking, ways::started, ways::prepared, ways::batch})
      check_calls<In, Out, float>(comm, count, way);
  check_calls<In, Out, float>(comm, 5000, ways::blocking, {.protocol = protocol::staged});
}

template <class Comm>
void check_every_kind(Comm& comm) {
  check_every_way<strided_array, strided_array>(comm);
  check_every_way<reversed_array, reversed_array>(comm);
  check_every_way<padded_rows, padded_rows>(comm);
  check_every_way<transposed, transposed>(comm);
  check_every_way<dense_array, strided_array>(comm);
  check_every_way<eigen_block, eigen_block>(comm);
  check_every_way<reversed_view, reversed_view>(comm);
}

// The forms of a call with one array, or with none to write to.
template <class Comm>
void check_forms(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), below = ranks * (ranks - 1) / 2;

  std::deque<int> const rank_and_1{rank, 1};
  std::deque<int> data = rank_and_1;
  all_reduce(comm, data);
  expect(data == std::deque{below, ranks}, "a deque is replaced");
  expect(all_reduce(comm, rank_and_1) == std::vector{below, ranks}, "a const deque is not");
  expect(all_reduce(comm, std::deque{rank, 1}, tutti::max{}) == std::vector{ranks - 1, 1}, "nor is a temporary one");
  data = rank_and_1;
  broadcast(comm, data, ranks - 1);
  expect(data == std::deque{ranks - 1, 1}, "broadcast replaces it too");
  auto const twice = [](int x) { return 2 * x; };
  expect(all_reduce(comm, rank_and_1 | std::views::transform(twice)) == std::vector{2 * below, 2 * ranks},
         "values that are computed on demand are an input");
  expect(all_gather(comm, std::views::iota(rank, rank + 1)).back() == ranks - 1, "to all_gather as well");
  data = rank_and_1;
  reduce(comm, data, 0);
  expect(data == (rank == 0 ? std::deque{below, ranks} : rank_and_1), "reduce changes only the root's");

  std::vector<int> matrix{rank, 0, 1, 0};
  all_reduce(comm, strided(matrix.data(), 2, 2));
  expect(matrix == std::vector{below, 0, ranks, 0}, "a temporary that refers to a column is replaced");

  Eigen::MatrixXd m = Eigen::MatrixXd::Constant(3, 2, rank);
  all_reduce(comm, m);
  expect(m == Eigen::MatrixXd::Constant(3, 2, below), "a matrix is replaced");
  m.setConstant(1);
  all_reduce(comm, m.row(1), tutti::mean{});
  all_reduce(comm, m.block(0, 1, 2, 1));
  expect(m(1, 0) == 1 && m(1, 1) == ranks && m(0, 1) == ranks && m(0, 0) == 1 && m(2, 1) == 1, "so is a part of one");
  Eigen::Vector3f const point(1, 2, 3);
  expect(all_reduce(comm, point) == std::vector<float>{1.f * static_cast<float>(ranks), 2.f * static_cast<float>(ranks),
                                                       3.f * static_cast<float>(ranks)},
         "a const vector is not");
  Eigen::MatrixXd all(3, 2 * ranks);
  m.setConstant(rank);
  all_gather(comm, m, all);
  for (int q = 0; q < ranks; ++q) expect(all(2, 2 * q) == q && all(0, 2 * q + 1) == q, "columns are gathered");
}

}  // namespace

TEST_CASE("each form of a call takes arrays with gaps, over threads and processes") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_forms(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_forms(comm); }));
  }
}

TEST_CASE("every collective takes arrays with gaps") {
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_every_kind(comm); }));
  }
}

TEST_CASE("errors name the sizes of arrays that are not contiguous") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) {
    std::vector<int> memory(40);
    std::deque<int> three(3);
    auto const e = error_of([&] { return all_reduce(comm, strided(memory.data(), 10, 4), three); });
    expect_error(e, error_code::bad_argument, "the output of all_reduce has 3 elements, but the input has 10");
  }));
}
