#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mpich_tests.sh MPI LIBRARY [REPOSITORY]: MPICH's own tests of non-blocking collectives, unmodified, alone and under libtutti-mpi.so.
# Prints a table: whether they pass, and how many calls ran on tutti. MPI is openmpi or mpich, and REPOSITORY a clone of
# https://github.com/pmodels/mpich, which is cloned into a temporary folder if there is none. Not a test of this project, because nothing
# of MPICH's is kept here. TUTTI_TEST_RANKS overrides the numbers of ranks.
set -eu
mpi=$1 library=$(realpath "$2") repository=${3:-}
version=${TUTTI_TEST_MPICH:-v4.0.2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$repository" ]; then
  repository=$work/mpich
  git clone -q --depth 1 --branch "$version" https://github.com/pmodels/mpich "$repository"
fi
# All that these tests need of MPICH's own frame.
cat >"$work/mpitest.h" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int MTest_Init(int* argc, char*** argv) { return MPI_Init(argc, argv); }
static int MTestReturnValue(int errs) { return errs != 0; }
static void MTest_Finalize(int errs) {
  int all = 0, rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&errs, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf(all == 0 ? " No Errors\n" : "%d errors\n", all);
  MPI_Finalize();
}
END
export TUTTI_MPI_FIRST_CALLS=0 TUTTI_TIMEOUT=60
echo "| test | ranks | alone | under libtutti-mpi.so | calls on tutti | passed to the MPI |"
echo "|---|---:|---|---|---:|---:|"
failed=0
passes() { [ "$1" = 0 ] && grep -q '^ No Errors$' "$2" && echo passes || echo "fails ($1)"; }
for name in iallred ibarrier nonblocking nonblocking2 nonblocking3; do
  git -C "$repository" show "$version:test/mpi/coll/$name.c" >"$work/$name.c"
  "mpicc.$mpi" -w -DHAVE_UNISTD_H -I "$work" "$work/$name.c" -o "$work/$name"
  for ranks in ${TUTTI_TEST_RANKS:-2 4 5}; do
    [ "$name" != iallred ] || [ "$ranks" = 2 ] || continue  # it is for two ranks
    timeout 120 "mpirun.$mpi" -n "$ranks" "$work/$name" >"$work/alone" 2>&1 && status=0 || status=$?
    alone=$(passes $status "$work/alone")
    timeout 120 "mpirun.$mpi" -n "$ranks" env TUTTI_MPI_STATS=1 LD_PRELOAD="$library" "$work/$name" >"$work/with" 2>&1 &&
      status=0 || status=$?
    with=$(passes $status "$work/with")
    [ "$with" = passes ] || [ "$alone" != passes ] || { failed=1; cat "$work/with" >&2; }
    calls=$(awk '/^tutti: MPI_/ {on += $3; left += $5} END {print on + 0 " | " left + 0}' "$work/with")
    echo "| $name | $ranks | $alone | $with | $calls |"
  done
done
exit $failed
