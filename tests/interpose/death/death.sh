#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# death.sh MPIRUN LIBRARY PROGRAM: of three ranks, one dies. The others print one whole message, with advice for an MPI program, and one
# short one. A shell outlives each rank, so that the MPI ends no rank before it has printed.
set -u
mpirun=$1 library=$2 program=$3

report=$("$mpirun" -n 3 sh -c 'LD_PRELOAD="$0" "$@"; sleep 2' "$library" "$program" 2>&1)
echo "$report"
[ "$(echo "$report" | grep -c '^rank [02]: right$')" = 2 ] || exit 1
[ "$(echo "$report" | grep -c '^tutti: .*: rank 1 .*; check the output of the rank that ended$')" = 1 ] || exit 1
[ "$(echo "$report" | grep -c '^tutti: MPI_Allreduce of MPI_INT on communicator MPI_COMM_WORLD: rank lost \[rank [02]\]$')" = 1 ]
