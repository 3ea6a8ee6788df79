// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions by a user-defined operation, on elements without gaps: tutti moves the elements, and the MPI calls the
// operation.
#pragma once

#include <cstddef>
#include <memory>
#include <mpi.h>

#include "collectives.hpp"

namespace interpose {

// Combines in rank order, whether the operation commutes or not. The standard lets an MPI pass the operation any part of a vector, but
// programs reduce lists by operations that need whole ones, and the MPIs pass those, except in MPI_Reduce_scatter. So each rank that
// has a result gathers all vectors and combines them itself; in MPI_Allreduce one rank does so for all, if they share cores and the
// vectors are not short. Where that is too much, each rank combines its block of the vectors: it receives a row from each rank. Long
// vectors take several rounds.
class user_reduction {
 public:
  // Whether the operation sees parts of vectors of so many bytes, in all functions but reduce_scatter.
  static bool splits(std::size_t bytes, int ranks) { return bytes > max_whole_bytes / static_cast<std::size_t>(ranks); }

  user_reduction(communicator& comm, MPI_Op op, MPI_Datatype type, std::size_t element_bytes)
      : comm_(comm), op_(op), type_(type), element_bytes_(element_bytes) {}

  void all_reduce(input in, output out);
  void reduce(input in, output out, int root);
  void reduce_scatter(input in, output out, sizes counts);
  void scan(input in, output out);
  void exclusive_scan(input in, output out);

 private:
  static constexpr std::size_t max_whole_bytes = std::size_t{256} << 10;  // of all ranks; fits a second-level cache

  // The part of a vector that is in flight at once.
  struct round {
    std::size_t begin, bytes;
    std::size_t row;       // bytes of each rank in this round
    std::size_t elements;  // of this rank's row; the last ones may be shorter
  };
  // Not initialised, as a std::vector would be.
  using memory = std::unique_ptr<std::byte[]>;

  // Calls deliver(round) for each round when rows_ has arrived.
  template <class Deliver>
  void in_rounds(input in, Deliver&& deliver);

  output message(round const& r) const { return {message_.get(), r.row * static_cast<std::size_t>(comm_.size())}; }

  // Row 0 is empty, and those of the ranks, which this returns, follow.
  output make_rows(std::size_t bytes);
  output rows(int first, std::size_t bytes) const {
    auto const ranks = static_cast<std::size_t>(comm_.size());
    return {&rows_[bytes * static_cast<std::size_t>(first)], bytes * ranks};
  }
  output row(int rank, std::size_t bytes) const { return {&rows_[bytes * static_cast<std::size_t>(rank + 1)], bytes}; }
  // Combines the rows of the first `ranks`.
  output fold(int ranks, std::size_t row_bytes, std::size_t elements) const;
  output fold(int ranks, std::size_t row_bytes) const { return fold(ranks, row_bytes, row_bytes / element_bytes_); }
  output fold(round const& r) const { return fold(comm_.size(), r.row, r.elements); }
  void make_prefixes(round const& r) const;
  void combine(input left, output right, std::size_t elements) const;

  communicator& comm_;
  MPI_Op op_;
  MPI_Datatype type_;
  std::size_t element_bytes_;
  memory message_, rows_;
};

}  // namespace interpose
