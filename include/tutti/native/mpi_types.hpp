// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The datatypes and operations of the MPI for the elements and operations of a call.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <mpi.h>
#include <string_view>
#include <type_traits>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace tutti::detail {

// An MPI datatype of `bytes` bytes, for elements that MPI has no type for and for blocks longer than an int can count.
class mpi_bytes {
 public:
  explicit mpi_bytes(std::size_t bytes) {
    if (bytes == 1) return;
    if (bytes < part_bytes) make_contiguous(static_cast<int>(bytes), type_);
    else make_of_parts(bytes);
    expect_success(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  mpi_bytes(mpi_bytes const&) = delete;
  mpi_bytes& operator=(mpi_bytes const&) = delete;
  ~mpi_bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  MPI_Datatype get() const { return type_; }

 private:
  static constexpr int part_bytes = 1 << 30;

  static void make_contiguous(int bytes, MPI_Datatype& to) {
    expect_success(MPI_Type_contiguous(bytes, MPI_BYTE, &to), "MPI_Type_contiguous");
  }
  [[gnu::cold]] void make_of_parts(std::size_t bytes) {
    MPI_Datatype part = MPI_DATATYPE_NULL;
    make_contiguous(part_bytes, part);
    std::size_t const parts = bytes / part_bytes;
    int const lengths[] = {static_cast<int>(parts), static_cast<int>(bytes % part_bytes)};
    MPI_Aint const begins[] = {0, static_cast<MPI_Aint>(parts * part_bytes)};
    MPI_Datatype const types[] = {part, MPI_BYTE};
    int const made = MPI_Type_create_struct(2, lengths, begins, types, &type_);
    MPI_Type_free(&part);
    expect_success(made, "MPI_Type_create_struct");
  }

  MPI_Datatype type_ = MPI_BYTE;
};

// The types on which MPI computes the same results as tutti: integers that wrap around, and sums and products of floating
// point. Excluded are minima and maxima of floating point, because MPI does not define them for NaN, those of unsigned integers, which MPICH
// 4.0 compares as signed, and integers of 8 and 16 bits, on which Open MPI 4.1 saturates.
template <class T>
inline constexpr bool mpi_integer = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
template <class T>
inline constexpr bool mpi_number = mpi_integer<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T>
MPI_Datatype mpi_type_of() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  else if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  else if constexpr (std::is_signed_v<T>) return sizeof(T) == 4 ? MPI_INT32_T : MPI_INT64_T;
  else return sizeof(T) == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

// MPI_OP_NULL if MPI has no such operation.
template <class T, class Op>
MPI_Op mpi_op_of() {
  if constexpr (requires { typename Op::bare_form_of; }) return mpi_op_of<T, typename Op::bare_form_of>();
  if constexpr (mpi_number<T>) {
    if constexpr (std::is_same_v<Op, sum> || std::is_same_v<Op, mean>) return MPI_SUM;
    if constexpr (std::is_same_v<Op, product>) return MPI_PROD;
  }
  if constexpr (mpi_integer<T>) {
    if constexpr (std::is_same_v<Op, min> && std::is_signed_v<T>) return MPI_MIN;
    if constexpr (std::is_same_v<Op, max> && std::is_signed_v<T>) return MPI_MAX;
    if constexpr (std::is_same_v<Op, bit_and>) return MPI_BAND;
    if constexpr (std::is_same_v<Op, bit_or>) return MPI_BOR;
    if constexpr (std::is_same_v<Op, bit_xor>) return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

// The MPI is C, so no exception of an operation may leave it, and other ranks may use the result of this one.
[[noreturn, gnu::cold]] inline void end_inside_mpi(std::string_view operation, char const* thrown) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw error({.code = error_code::bad_argument,
               .rank = rank,
               .what = join({"the operation ", operation, " threw an exception inside the MPI's own collective (",
                             thrown, "), so this process ends"}),
               .way_out = "write an operation that does not throw, or name another algorithm than native"});
}

// The MPI operation and datatype of a reduction during one call: built in, or made from the functor.
template <class Body>
class mpi_reduction;
template <class T, class Op>
class mpi_reduction<reducing<T, Op>> {
 public:
  explicit mpi_reduction(reducing<T, Op> const& body) : body_(body), bytes_(is_user_defined() ? sizeof(T) : 1) {
    if (is_user_defined()) expect_success(MPI_Op_create(&apply, is_commutative<Op> ? 1 : 0, &op_), "MPI_Op_create");
  }
  mpi_reduction(mpi_reduction const&) = delete;
  mpi_reduction& operator=(mpi_reduction const&) = delete;
  ~mpi_reduction() {
    if (is_user_defined()) MPI_Op_free(&op_);
  }

  // Called right before the collective of the MPI. While ranks meet, a continuation may have called another one.
  void begin() noexcept { running_ = &body_; }

  MPI_Op op() const { return op_; }
  MPI_Datatype type() const {
    if constexpr (mpi_number<T>)
      if (!is_user_defined()) return mpi_type_of<T>();
    return bytes_.get();
  }

 private:
  static bool is_user_defined() { return mpi_op_of<T, Op>() == MPI_OP_NULL; }

  // MPI calls it on the thread that is in the collective, with buffers that may be aligned for no more than max_align_t.
  static void apply(void* in, void* inout, int* count, MPI_Datatype*) noexcept {
    auto const n = static_cast<std::size_t>(*count);
    if constexpr (alignof(T) <= alignof(std::max_align_t)) {
      combine_two(static_cast<T const*>(in), static_cast<T*>(inout), n);
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        T left, right;
        std::memcpy(&left, static_cast<std::byte*>(in) + i * sizeof(T), sizeof(T));
        std::memcpy(&right, static_cast<std::byte*>(inout) + i * sizeof(T), sizeof(T));
        combine_two(&left, &right, 1);
        std::memcpy(static_cast<std::byte*>(inout) + i * sizeof(T), &right, sizeof(T));
      }
    }
  }
  static void combine_two(T const* left, T* right, std::size_t n) {
    auto* const result = reinterpret_cast<std::byte*>(right);
    std::byte const* const sources[] = {reinterpret_cast<std::byte const*>(left), result};
    try {
      running_->in_bytes()(sources, 2, &result, 1, n * sizeof(T), {});
    } catch (std::exception const& e) {
      end_inside_mpi(name_of<Op>(), e.what());
    } catch (...) {
      end_inside_mpi(name_of<Op>(), "of an unknown type");
    }
  }

  static inline thread_local reducing<T, Op> const* running_ = nullptr;
  reducing<T, Op> const& body_;
  MPI_Op op_ = mpi_op_of<T, Op>();
  mpi_bytes bytes_;
};

}  // namespace tutti::detail
