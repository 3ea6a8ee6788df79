// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of PMPI_ functions. The Fortran libraries of Open MPI and of MPICH (mpif.h, use mpi, use mpi_f08) convert the arguments and
// then call the PMPI_ functions of C, as a profiler does that defines the MPI_ functions. So this library defines those too: they are
// the MPI_ functions, and those of the MPI for calls from the MPI's own libraries and from this one. Those that initialise and finalize,
// and that complete requests, are the MPI_ functions for the MPI's libraries, too: a request of the program may come back to them.
#pragma once

namespace interpose {

// Whether the address lies in a library of the MPI, other than those for Fortran and C++, or in this one. Code that is built without
// -fno-optimize-sibling-calls may have the return address of its caller.
bool is_in_mpi_or_here(void const* code);
bool is_in_this_library(void const* code);

// A function of the MPI that this library also defines.
void* find_in_mpi(char const* name);

}  // namespace interpose

// INTERPOSE_PMPI(function, parameters, arguments...); INTERPOSE_ALL for callers of any kind.
#define INTERPOSE_PMPI(name, parameters, ...) \
  INTERPOSE_IF(!interpose::is_in_mpi_or_here(__builtin_return_address(0)), name, parameters, __VA_ARGS__)
#define INTERPOSE_ALL(name, parameters, ...) \
  INTERPOSE_IF(!interpose::is_in_this_library(__builtin_return_address(0)), name, parameters, __VA_ARGS__)
// Inlined, it would see the return address of its caller.
#define INTERPOSE_IF(condition, name, parameters, ...)                                                        \
  [[gnu::noinline]] int PMPI_##name parameters {                                                              \
    static auto* const mpi = reinterpret_cast<decltype(&PMPI_##name)>(interpose::find_in_mpi("PMPI_" #name)); \
    return condition ? MPI_##name(__VA_ARGS__) : mpi(__VA_ARGS__);                                            \
  }
