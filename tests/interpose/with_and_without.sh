#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# with_and_without.sh MPIRUN RANKS LIBRARY PROGRAM FUNCTION...: runs the program without the library, then with it, where its
# calls of these functions are to have run on tutti. Without it on two ranks at most: more of them on fewer cores take MPICH minutes.
set -eu
mpirun=$1 ranks=$2 library=$3 program=$4
shift 4

[ "$ranks" -gt 2 ] || "$mpirun" -n "$ranks" "$program"
report=$(TUTTI_MPI_STATS=1 "$mpirun" -n "$ranks" env LD_PRELOAD="$library" "$program" strict 2>&1) || {
  echo "$report"
  exit 1
}
echo "$report"
[ "$(echo "$report" | grep -c '^tutti: function  *on tutti  *bytes  passed to the MPI$')" = 1 ]  # it has started once
for function; do
  echo "$report" | grep -q "^tutti: $function  *[1-9][0-9]*  *[0-9]*  [0-9]*" || {
    echo "$function did not run on tutti"
    exit 1
  }
done
