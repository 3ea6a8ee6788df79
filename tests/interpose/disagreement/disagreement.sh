#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# disagreement.sh MPIRUN LIBRARY PROGRAM: non-blocking reductions that the MPI makes on some ranks, or with different counts, end the
# program with an error that tells what each rank calls.
set -u
mpirun=$1 library=$2 program=$3

# expect_error DIFFERENCE CALL: of a rank whose call is not the MPI's of 16 bytes.
expect_error() {
  if report=$("$mpirun" -n 2 env LD_PRELOAD="$library" "$program" "$1" 2>&1); then
    echo "$1: the program succeeded"
    exit 1
  fi
  echo "$report"
  echo "$report" | grep '^tutti: MPI_Iallreduce: ranks disagree' | grep -F "calls all_reduce of 16 bytes with the MPI's MPI_Iallreduce" |
    grep -qF "$2" || exit 1
}
expect_error operation "with MPI_SUM of float64"
expect_error type "with MPI_SUM of float64"
expect_error both "calls all_reduce of 8 bytes with the MPI's MPI_Iallreduce"
