#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# watchdog.sh ranks launcher -n ranks program...: runs tests/mpi/watchdog.cpp under a launcher that leaves other ranks alone when one has
# died. A rank dies inside the MPI's own collective, which the others cannot leave: the watchdog must end each of them, and name it.
set -eu
ranks=$1 launcher=$2
[ "$3 $4" = "-n $ranks" ]
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/survivors_stay.sh"
timeout -k 1 60 "$launcher" $continues -n "$ranks" $outlive "$@" >"$work/log" 2>&1 && status=0 || status=$?
told=$(grep -c 'rank 1 ended while rank [02] was inside the MPI (all_reduce).*watchdog.cpp' "$work/log" || true)
if [ "$status" = 124 ] || [ "$told" != 2 ]; then
  cat "$work/log"
  echo "the launcher ended with status $status, and $told ranks were told who died"
  exit 1
fi
