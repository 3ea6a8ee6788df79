// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm `native`: calls on the memory of a request, made by the collectives of the MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mpi.h>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/transport/mpi/mpi.hpp"

namespace tutti::detail {

// An MPI datatype of `bytes` bytes, for elements that MPI has no type for and for blocks longer than an int can count.
class mpi_bytes {
 public:
  explicit mpi_bytes(std::size_t bytes) {
    if (bytes == 1) return;
    MPI_Datatype part = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(part_bytes, MPI_BYTE, &part);
    std::size_t const parts = bytes / part_bytes;
    int const lengths[] = {static_cast<int>(parts), static_cast<int>(bytes % part_bytes)};
    MPI_Aint const begins[] = {0, static_cast<MPI_Aint>(parts * part_bytes)};
    MPI_Datatype const types[] = {part, MPI_BYTE};
    if (parts > 0) MPI_Type_create_struct(2, lengths, begins, types, &type_);
    else MPI_Type_contiguous(lengths[1], MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&part);
  }
  mpi_bytes(mpi_bytes const&) = delete;
  mpi_bytes& operator=(mpi_bytes const&) = delete;
  ~mpi_bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  MPI_Datatype get() const { return type_; }

 private:
  static constexpr int part_bytes = 1 << 30;
  MPI_Datatype type_ = MPI_BYTE;
};

// The types on which MPI computes the same results as tutti: integers that wrap around, and sums of floating point. Excluded
// are minima and maxima of floating point, because MPI does not define them for NaN, those of unsigned integers, which MPICH
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

// The MPI operation and datatype of a reduction during one call: built in, or made from the functor.
template <class Body>
class mpi_reduction;
template <class T, class Op>
class mpi_reduction<reducing<T, Op>> {
 public:
  explicit mpi_reduction(reducing<T, Op> const& body) : bytes_(is_user_defined() ? sizeof(T) : 1) {
    if (!is_user_defined()) return;
    running_ = &body;
    MPI_Op_create(&apply, is_commutative<Op> ? 1 : 0, &op_);
  }
  mpi_reduction(mpi_reduction const&) = delete;
  mpi_reduction& operator=(mpi_reduction const&) = delete;
  ~mpi_reduction() {
    if (is_user_defined()) MPI_Op_free(&op_);
  }

  MPI_Op op() const { return op_; }
  MPI_Datatype type() const {
    if constexpr (mpi_number<T>)
      if (!is_user_defined()) return mpi_type_of<T>();
    return bytes_.get();
  }

 private:
  static bool is_user_defined() { return mpi_op_of<T, Op>() == MPI_OP_NULL; }

  // MPI calls it on the thread that is in the collective, with buffers that may be aligned for no more than max_align_t.
  static void apply(void* in, void* inout, int* count, MPI_Datatype*) {
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
    running_->in_bytes()(sources, 2, &result, 1, n * sizeof(T), {});
  }

  static inline thread_local reducing<T, Op> const* running_ = nullptr;
  MPI_Op op_ = mpi_op_of<T, Op>();
  mpi_bytes bytes_;
};

struct mpi_collectives {
  // In place, MPI puts the result of reduce_scatter elsewhere than tutti, and MPICH 4.0 crashes in a reduce to a root other than
  // 0. An MPI all_to_all must be in place on all ranks or none, whereas in tutti each rank chooses.
  static constexpr bool works_in_place(collective c) {
    return c != collective::reduce_scatter && c != collective::reduce && c != collective::all_to_all;
  }

  // For a _v form: throws before any rank calls MPI if an int cannot hold the end of a block.
  template <collective C, class T>
  static void expect_countable(mpi const& transport, request const& r, surfaces<T> const& memory) {
    if constexpr (!reduces(C)) {
      auto const size = static_cast<std::size_t>(r.element_bytes);
      int const rank = transport.rank();
      bool const root = rank == r.root;
      for (int q = 0; q < transport.ranks(); ++q) {
        if (C == collective::all_to_all || (C == collective::scatter ? root : q == rank))
          narrow(memory.input.where.at(0, q).end() / size);
        if (C == collective::all_to_all || C == collective::all_gather || (C == collective::gather ? root : q == rank))
          narrow(memory.output.where.at(0, q).end() / size);
      }
    }
  }

  // Raises errors of the MPI on the notice board. `elements`: the length of the message, unless it consists of blocks.
  template <collective C, class Body>
  static void call(mpi& transport, request const& r, surfaces<typename Body::element> const& memory,
                   std::size_t elements, Body const& body) {
    MPI_Comm const comm = transport.communicator();
    if constexpr (C == collective::barrier) transport.expect(MPI_Barrier(comm), "MPI_Barrier");
    else if constexpr (C == collective::broadcast) broadcast(transport, memory.output.data, elements, r.root);
    else if constexpr (C == collective::reduce_scatter) reduce_blocks(transport, memory, body);
    else if constexpr (reduces(C)) reduce_message<C>(transport, memory, elements, body, r.root);
    else if (r.ragged) move_ragged<C>(transport, memory, r);
    else move_blocks<C>(transport, memory, r.root);
  }

 private:
  static constexpr std::size_t max_count = std::numeric_limits<int>::max();

  // `n` bytes as an MPI count and datatype.
  struct message {
    explicit message(std::size_t n) : type(n <= max_count ? 1 : n), count(n <= max_count ? static_cast<int>(n) : 1) {}
    mpi_bytes type;
    int count;
  };

  static void broadcast(mpi& transport, std::byte* data, std::size_t bytes, int root) {
    message const all(bytes);
    transport.expect(MPI_Bcast(data, all.count, all.type.get(), root, transport.communicator()), "MPI_Bcast");
  }

  // Elements are independent, so a message that exceeds an int count is reduced in several calls.
  template <collective C, class Body>
  static void reduce_message(mpi& transport, surfaces<typename Body::element> const& memory, std::size_t elements,
                             Body const& body, int root) {
    mpi_reduction<Body> const how(body);
    MPI_Comm const comm = transport.communicator();
    for (std::size_t begin = 0; begin < elements; begin += max_count) {
      int const count = static_cast<int>(elements - begin < max_count ? elements - begin : max_count);
      void const* const in = memory.in_place ? MPI_IN_PLACE : memory.input.data + begin;
      auto* const out = memory.output.data == nullptr ? nullptr : memory.output.data + begin;
      if constexpr (C == collective::all_reduce)
        transport.expect(MPI_Allreduce(in, out, count, how.type(), how.op(), comm), "MPI_Allreduce");
      else if constexpr (C == collective::reduce)
        transport.expect(MPI_Reduce(in, out, count, how.type(), how.op(), root, comm), "MPI_Reduce");
      else if constexpr (C == collective::scan)
        transport.expect(MPI_Scan(in, out, count, how.type(), how.op(), comm), "MPI_Scan");
      else {
        static_assert(C == collective::exclusive_scan, "name the function of MPI that does this collective");
        transport.expect(MPI_Exscan(in, out, count, how.type(), how.op(), comm), "MPI_Exscan");
      }
    }
  }

  // Not in place. If an int cannot count the blocks, reduces each to its rank, one after the other.
  template <class Body>
  static void reduce_blocks(mpi& transport, surfaces<typename Body::element> const& memory, Body const& body) {
    mpi_reduction<Body> const how(body);
    std::vector<int> counts;
    for (int q = 0; q < transport.ranks(); ++q) {
      std::size_t const n = memory.input.where.at(0, q).count;
      if (n <= max_count) counts.push_back(static_cast<int>(n));
    }
    if (counts.size() == static_cast<std::size_t>(transport.ranks()) && memory.input.where.end() <= max_count)
      return transport.expect(MPI_Reduce_scatter(memory.input.data, memory.output.data, counts.data(), how.type(),
                                                 how.op(), transport.communicator()),
                              "MPI_Reduce_scatter");
    for (int q = 0; q < transport.ranks(); ++q) {
      extent const block = memory.input.where.at(0, q);
      reduce_message<collective::reduce>(
          transport, {.input = {memory.input.data + block.begin}, .output = {memory.output.data}, .scratch = {}},
          block.count, body, q);
    }
  }

  template <collective C>
  static void move_blocks(mpi& transport, surfaces<std::byte> const& memory, int root) {
    MPI_Comm const comm = transport.communicator();
    constexpr bool scatters = C == collective::scatter;
    message const block((scatters ? memory.output.where : memory.input.where).at(0, transport.rank()).count);
    void const* const in = memory.in_place && !scatters ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && scatters ? MPI_IN_PLACE : memory.output.data;
    int const n = block.count;
    MPI_Datatype const type = block.type.get();
    if constexpr (C == collective::all_gather)
      transport.expect(MPI_Allgather(in, n, type, out, n, type, comm), "MPI_Allgather");
    else if constexpr (C == collective::gather)
      transport.expect(MPI_Gather(in, n, type, out, n, type, root, comm), "MPI_Gather");
    else if constexpr (C == collective::scatter)
      transport.expect(MPI_Scatter(in, n, type, out, n, type, root, comm), "MPI_Scatter");
    else {
      static_assert(C == collective::all_to_all, "name the function of MPI that does this collective");
      transport.expect(MPI_Alltoall(in, n, type, out, n, type, comm), "MPI_Alltoall");
    }
  }

  // The blocks of a _v form, in elements.
  struct blocks {
    blocks(layout const& where, int ranks, std::size_t element_bytes, bool known) {
      for (int q = 0; q < ranks && known; ++q) {
        extent const block = where.at(0, q);
        counts.push_back(narrow(block.count / element_bytes));
        begins.push_back(narrow(block.begin / element_bytes));
      }
    }
    std::vector<int> counts, begins;
  };
  static int narrow(std::size_t n) {
    if (n <= max_count) return static_cast<int>(n);
    throw error({.code = error_code::bad_argument,
                 .what = join({"MPI counts the elements of a _v form in an int, which cannot hold ", n}),
                 .way_out = "choose an algorithm other than native"});
  }

  template <collective C>
  static void move_ragged(mpi& transport, surfaces<std::byte> const& memory, request const& r) {
    MPI_Comm const comm = transport.communicator();
    int const rank = transport.rank(), ranks = transport.ranks();
    auto const size = static_cast<std::size_t>(r.element_bytes);
    mpi_bytes const element(size);
    MPI_Datatype const type = element.get();
    void const* const in = memory.in_place && C != collective::scatter ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && C == collective::scatter ? MPI_IN_PLACE : memory.output.data;
    if constexpr (C == collective::scatter) {
      blocks const sent(memory.input.where, ranks, size, rank == r.root);
      int const mine = narrow(memory.output.where.at(0, rank).count / size);
      transport.expect(MPI_Scatterv(in, sent.counts.data(), sent.begins.data(), type, out, mine, type, r.root, comm),
                       "MPI_Scatterv");
    } else if constexpr (C == collective::all_to_all) {
      blocks const sent(memory.input.where, ranks, size, true), received(memory.output.where, ranks, size, true);
      transport.expect(MPI_Alltoallv(in, sent.counts.data(), sent.begins.data(), type, out, received.counts.data(),
                                     received.begins.data(), type, comm),
                       "MPI_Alltoallv");
    } else {
      blocks const received(memory.output.where, ranks, size, C == collective::all_gather || rank == r.root);
      int const mine = narrow(memory.input.where.at(0, rank).count / size);
      if constexpr (C == collective::all_gather)
        transport.expect(
            MPI_Allgatherv(in, mine, type, out, received.counts.data(), received.begins.data(), type, comm),
            "MPI_Allgatherv");
      else
        transport.expect(
            MPI_Gatherv(in, mine, type, out, received.counts.data(), received.begins.data(), type, r.root, comm),
            "MPI_Gatherv");
    }
  }
};

}  // namespace tutti::detail
