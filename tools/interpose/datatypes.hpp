// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The properties of an MPI datatype that tutti needs.
#pragma once

#include <cstddef>
#include <mpi.h>

#include "operations.hpp"

namespace interpose {

struct datatype {
  std::size_t size = 0;  // bytes of its values
  MPI_Aint extent = 0;   // from one element to the next in memory
  bool dense = false;    // the values lie in memory in their order and nothing else does
  element kind = element::none;
};

// Of a type that is not MPI_DATATYPE_NULL.
datatype look_up(MPI_Datatype type);

// Memory holds nothing but its values, in whatever order.
bool has_no_gaps(MPI_Datatype type, datatype const& known);

}  // namespace interpose
