// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls from Fortran. The Fortran libraries of Open MPI and of MPICH (mpif.h, use mpi, use mpi_f08) convert the arguments and
// then call the PMPI_ functions of C. So this library defines those too: called by a Fortran library, they are the MPI_
// functions, and called by anybody else, those of the MPI.
#pragma once

namespace interpose {

// Whether the address lies in one of the libraries that an MPI has for Fortran.
bool is_in_fortran_library(void const* code);

// A function of the MPI that this library also defines.
void* find_in_mpi(char const* name);

}  // namespace interpose

// INTERPOSE_FORTRAN(function, parameters, arguments...)
#define INTERPOSE_FORTRAN(name, parameters, ...)                                                              \
  int PMPI_##name parameters {                                                                                \
    static auto* const mpi = reinterpret_cast<decltype(&PMPI_##name)>(interpose::find_in_mpi("PMPI_" #name)); \
    bool const fortran = interpose::is_in_fortran_library(__builtin_return_address(0));                       \
    return fortran ? MPI_##name(__VA_ARGS__) : mpi(__VA_ARGS__);                                              \
  }
