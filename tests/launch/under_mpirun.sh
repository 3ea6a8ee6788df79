#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# under_mpirun.sh openmpi|mpich program: ranks that an MPI launcher starts find each other by init, from within a script
# as well, two jobs at once too. Exits 77, and says why, where there is no such launcher.
set -u
kind=$1 program=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export TUTTI_TIMEOUT=30
case $kind in
  openmpi) mark="Open MPI" recovery=--enable-recovery ;;
  mpich) mark="HYDRA" recovery= ;;  # it ends all ranks
esac
launcher=
for name in "mpirun.$kind" mpirun mpiexec mpiexec.hydra; do
  if command -v "$name" >/dev/null 2>&1 && "$name" --version 2>&1 | grep -q "$mark"; then launcher=$name; break; fi
done
if [ -z "$launcher" ]; then
  echo "skipped: there is no mpirun of $kind"
  exit 77
fi

work=$(mktemp -d) temporary=$(mktemp -d)
trap 'rm -rf "$work" "$temporary"' EXIT
export TMPDIR="$temporary"
fail() {
  echo "FAILED: $1"
  cat "$work"/*
  exit 1
}
expect_right() {
  [ "$(grep -c "of $2: right" "$work/$1")" -eq "$2" ] || fail "$1: not all $2 ranks were right"
}

"$launcher" -n 4 "$program" sum 5 >"$work/direct" 2>&1 || fail direct
expect_right direct 4
"$launcher" -n 3 sh -c "\"$program\" twice; exit \$?" >"$work/script" 2>&1 || fail script
expect_right script 3
if [ -n "$recovery" ]; then  # the exit code tells of the rank that is killed
  "$launcher" "$recovery" -n 4 "$program" survive 2 >"$work/survive" 2>&1
  expect_right survive 3
fi
# Open MPI's launchers remove each other's folders where they share one.
mkdir "$temporary/one" "$temporary/other"
TMPDIR=$temporary/one "$launcher" -n 2 "$program" sum 1 >"$work/one" 2>&1 &
TMPDIR=$temporary/other "$launcher" -n 2 "$program" sum 100 >"$work/other" 2>&1 || fail other
wait $! || fail one
expect_right one 2
expect_right other 2
echo "$launcher: right"
