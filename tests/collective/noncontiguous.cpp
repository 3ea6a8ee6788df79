// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that are not contiguous, over shared memory and over threads, and Eigen's matrices.
// labels: processes computes
#include <doctest/doctest.h>

#include <cstddef>
#include <deque>
#include <vector>

#include <Eigen/Core>

#include "collective/noncontiguous.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// A block of a matrix that has `rows` rows, or columns, and is three longer.
template <int Order>
struct eigen_block {
  std::size_t n, rows = rows_of(n), columns = n / rows, inner = Order == Eigen::RowMajor ? columns : rows;

  std::size_t memory() const { return inner == 0 ? 0 : n / inner * (inner + 3); }
  std::size_t place(std::size_t i) const { return i / inner * (inner + 3) + i % inner; }
  template <class T>
  auto of(std::vector<T>& memory) const {
    using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;
    Eigen::OuterStride<> const stride(static_cast<Eigen::Index>(inner + 3));
    return Eigen::Map<matrix, 0, Eigen::OuterStride<>>(memory.data(), static_cast<Eigen::Index>(rows),
                                                       static_cast<Eigen::Index>(columns), stride);
  }
};

template <class Comm>
void check_every_kind(Comm& comm) {
  check_calls_with_gaps<padded_rows, padded_layers>(comm);
  check_calls_with_gaps<reversed_view, reversed_view>(comm);
  check_messages_with_gaps<reversed_view, reversed_array>(comm);
  if constexpr (!sanitized) {  // They take the same paths.
    check_calls_with_gaps<strided_array, reversed_array>(comm);
    check_calls_with_gaps<eigen_block<Eigen::ColMajor>, transposed_matrix>(comm);
    check_calls_with_gaps<dense_matrix, eigen_block<Eigen::RowMajor>>(comm);
    check_messages_with_gaps<strided_array, padded_rows>(comm);
    check_messages_with_gaps<dense_matrix, reversed_view>(comm);
  }
}

// Matrices, parts of them and vectors.
template <class Matrix, class Comm>
void check_eigen(Comm& comm) {
  int const ranks = comm.size(), rank = comm.rank(), below = ranks * (ranks - 1) / 2;
  Matrix m = Matrix::Constant(3, 2, rank);
  all_reduce(comm, m);
  expect(m == Matrix::Constant(3, 2, below), "a matrix is replaced");
  m.setConstant(1);
  all_reduce(comm, m.row(1), tutti::mean{});
  all_reduce(comm, m.block(0, 1, 2, 1));
  expect(m(1, 0) == 1 && m(1, 1) == ranks && m(0, 1) == ranks && m(0, 0) == 1 && m(2, 1) == 1, "so is a part of one");
  all_reduce(comm, m.col(0));
  expect(m(0, 0) == ranks && m(2, 0) == ranks && m(2, 1) == 1, "and a column");
  Eigen::Vector3f const point(1, 2, 3);
  expect(all_reduce(comm, point) == std::vector<float>{1.f * static_cast<float>(ranks), 2.f * static_cast<float>(ranks),
                                                       3.f * static_cast<float>(ranks)},
         "a const vector is not");
  // In the order of their storage, a matrix follows another behind its last column, or below its last row.
  Matrix all(Matrix::IsRowMajor ? 3 * ranks : 3, Matrix::IsRowMajor ? 2 : 2 * ranks);
  m.setConstant(rank);
  all_gather(comm, m, all);
  for (int q = 0; q < ranks; ++q) {
    auto const its = all.block(Matrix::IsRowMajor ? 3 * q : 0, Matrix::IsRowMajor ? 0 : 2 * q, 3, 2);
    expect(its == Matrix::Constant(3, 2, q), "matrices are gathered");
  }
}

template <class Comm>
void check_forms(Comm& comm) {
  check_forms_with_gaps(comm);
  check_eigen<Eigen::MatrixXd>(comm);
  check_eigen<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(comm);
}

}  // namespace

TEST_CASE("each form of a call takes arrays with gaps, over threads and processes") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_forms(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_forms(comm); }));
  }
}

TEST_CASE("every collective takes arrays with gaps") {
  for (int const ranks : ranks_to_test({1, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_every_kind(comm); }));
  }
}

TEST_CASE("every algorithm reads and writes arrays with gaps, over threads and processes") {
  auto const check = [](auto& comm) {
    check_algorithms_with_gaps<strided_array, padded_layers>(comm);
    check_overlaps_with_gaps(comm);
    check_overlapping_blocks(comm);
    check_moves_with_gaps(comm);
  };
  CHECK_NOTHROW(run_threads(sanitized ? 2 : 3, check));
  for (int const ranks : sanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, check));
  }
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_windows_used_again<strided_array, padded_layers>(comm); }));
  CHECK_NOTHROW(run_local(4, [](auto& comm) { check_algorithms_with_gaps<padded_rows, reversed_array>(comm); }));
  CHECK_NOTHROW(run_threads(1, [](auto& comm) {
    check_overlaps_with_gaps(comm);
    check_moves_with_gaps(comm);
  }));
}

TEST_CASE("errors name the sizes of arrays that are not contiguous") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) {
    std::vector<int> memory(40);
    std::deque<int> three(3);
    auto const e = error_of([&] { return all_reduce(comm, strided(memory.data(), 10, 4), three); });
    expect_error(e, error_code::bad_argument, "the output of all_reduce has 3 elements, but the input has 10");
  }));
}
