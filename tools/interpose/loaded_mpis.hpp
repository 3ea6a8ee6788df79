// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises a program that uses another MPI than this library.
#pragma once

namespace interpose {

// Ends the process with a sentence if another MPI is loaded beside the one that this library was built for: handles of
// the one would go to the other, which crashes. Called before MPI is initialised.
void expect_one_mpi();

}  // namespace interpose
