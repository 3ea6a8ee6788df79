#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shm_vs_mpi.sh program ranks [option...]: runs bench_shm_vs_mpi against several settings of Open MPI and prints, for each
# size, the row of the strongest. The rows of all settings stay in the folder $ROWS, if it is given.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: $0 build/release/bench/bench_shm_vs_mpi ranks [option...]" >&2
  exit 2
fi
program=$1 ranks=$2
shift 2
rows=${ROWS-$(mktemp -d)}
mkdir -p "$rows"

# Open MPI refuses to start as root unless it is told to.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A core for each rank, where there are as many: else both may meet on one and spin there for a time slice. With fewer,
# ranks must yield.
if [ "$ranks" -le "$(nproc)" ]; then
  launch="mpirun -n $ranks --bind-to core"
else
  launch="mpirun -n $ranks --bind-to none --oversubscribe --mca mpi_yield_when_idle 1"
fi

files=
try() {
  name=$1 settings=$2
  shift 2
  echo "== Open MPI, $name" >&2
  # shellcheck disable=SC2086  # these are words
  if $launch $settings "$program" --peer "$name" --json "$rows/$name.json" "$@" >"$rows/$name.txt"; then
    files="$files $rows/$name.json"
  else
    echo "   this setting does not work here and is left out" >&2
  fi
}
try plain "" "$@"
try eager "--mca btl_vader_eager_limit 32768" "$@"
try ucx "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any" "$@"

grep -h '^#' "$rows/plain.txt" | grep -v '^##'
# shellcheck disable=SC2086
"$program" --merge $files
