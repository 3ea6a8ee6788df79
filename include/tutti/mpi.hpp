// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything of tutti.hpp, and collectives over MPI.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/collective/two_level.hpp"
#include "tutti/launch/mpi.hpp"
#include "tutti/native/mpi_collectives.hpp"
#include "tutti/transport/hierarchical/hierarchical.hpp"
#include "tutti/transport/mpi/mpi.hpp"
#include "tutti/tutti.hpp"
