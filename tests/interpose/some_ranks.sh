#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# some_ranks.sh MPIRUN LIBRARY PROGRAM: if only rank 0 loads the library, it waits for the others in MPI_Init, and says why.
set -u
mpirun=$1 library=$2 program=$3

report=$(timeout 10 "$mpirun" -n 2 sh -c '[ "$PMI_RANK" != 0 ] || export LD_PRELOAD="$0"; exec "$@"' "$library" "$program" 2>&1)
echo "$report"
echo "$report" | grep -q 'tutti: MPI_Init has waited for the other ranks for 1 s, and goes on; have all of them loaded libtutti-mpi.so?'
