// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions by a user-defined operation, on elements without gaps: tutti moves the elements, and the MPI calls the
// operation.
#pragma once

#include <cstddef>
#include <mpi.h>
#include <vector>

#include "collectives.hpp"

namespace interpose {

// Each rank receives the contributions of all ranks to its block of the message, a row from each, and combines the rows
// in rank order, whether the operation commutes or not. Long messages take several rounds.
class user_reduction {
 public:
  user_reduction(communicator& comm, MPI_Op op, MPI_Datatype type, std::size_t element_bytes)
      : comm_(comm), op_(op), type_(type), element_bytes_(element_bytes) {}

  void all_reduce(input in, output out);
  void reduce(input in, output out, int root);
  void reduce_scatter(input in, output out, sizes counts);
  void scan(input in, output out);
  void exclusive_scan(input in, output out);

 private:
  // The part of a message that is in flight at once.
  struct round {
    std::size_t begin, bytes;
    std::size_t row;       // bytes of each rank in this round
    std::size_t elements;  // of this rank's row; the last ones may be shorter
  };
  // Calls deliver(round) for each round when rows_ has arrived; row 0 is empty.
  template <class Deliver>
  void in_rounds(input in, Deliver&& deliver);

  output row(int rank, std::size_t bytes) { return {&rows_[bytes * static_cast<std::size_t>(rank + 1)], bytes}; }
  output fold(round const& r);
  void make_prefixes(round const& r);
  void combine(input left, output right, std::size_t elements) const;

  communicator& comm_;
  MPI_Op op_;
  MPI_Datatype type_;
  std::size_t element_bytes_;
  std::vector<std::byte> message_, rows_;
};

}  // namespace interpose
