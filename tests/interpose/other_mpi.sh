#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# other_mpi.sh MPIRUN LIBRARY PROGRAM: a program under the library of another MPI ends with a sentence that says so.
set -u
mpirun=$1 library=$2 program=$3

report=$("$mpirun" -n 1 env LD_PRELOAD="$library" "$program" 2>&1) && {
  echo "the program ended without an error: $report"
  exit 1
}
echo "$report"
echo "$report" | grep -q 'tutti: this libtutti-mpi.so was built for .*, but two MPIs are loaded (.* and .*); preload'
