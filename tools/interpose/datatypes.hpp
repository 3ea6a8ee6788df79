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
  bool dense = false;    // the values are adjacent in memory, in their order
  element kind = element::none;
};

// Whether it is a type that is committed, as far as the MPI can tell without a message. Otherwise nothing else here may be asked.
bool is_usable(MPI_Datatype type);

datatype look_up(MPI_Datatype type);

// Memory contains only its values, in any order.
bool has_no_gaps(MPI_Datatype type, datatype const& known);

}  // namespace interpose
