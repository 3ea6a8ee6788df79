#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# watchdog.sh ranks launcher -n ranks program...: runs tests/mpi/watchdog.cpp under a launcher that leaves other ranks alone when one has
# died. A rank dies inside the MPI's own collective, which the others cannot leave: the watchdog must end each of them, name it, and write
# a flight record of each. So it must if a rank dies while others create a group. In another job, a rank never leaves MPI_Test: the
# watchdog must end it, too.
set -eu
. "$(dirname "$0")/survivors_stay.sh"

# run seconds log ranks filter program...: prints the status if it is not 0.
run() {
  local seconds=$1 log=$2 ranks=$3 filter=$4
  shift 4
  timeout -k 1 "$seconds" "$launcher" $continues -n "$ranks" $outlive "$@" "-tc=$filter" >"$work/$log" 2>&1 || echo $?
}
# Whether the time was up: the launcher ended by a signal of `timeout`.
expired() { [ "$1" = 124 ] || [ "$1" = 137 ]; }
fail() {
  kill $! 2>/dev/null || true
  cat "$work"/*.log
  echo "$1"
  exit 1
}
run 120 stays.log 1 "*never leaves*" "$@" >"$work/status_of_stay" &
status=$(TUTTI_RECORD="$work/record" run 60 dies.log "$ranks" "*died*" "$@")
told=$(grep -c 'rank 1 ended while rank [02] was inside the MPI (all_reduce).*watchdog.cpp' "$work/dies.log" || true)
! expired "$status" && [ "$told" = 2 ] || fail "the launcher ended with status $status, and $told ranks were told who died"
for rank in 0 2; do
  grep -q '"reason": .*rank 1 ended while' "$work/record.$rank.json" || fail "rank $rank has not recorded why it ends"
  grep -q '"call": "all_reduce of 1000000 int' "$work/record.$rank.json" || fail "rank $rank has not recorded its call"
done
status=$(run 60 group.log "$ranks" "*create a group*" "$@")
told=$(grep -c 'rank 1 ended while rank [02] was inside the MPI (MPI_Comm_create_group)' "$work/group.log" || true)
! expired "$status" && [ "$told" = 2 ] || fail "creating a group ended with status $status, and $told ranks were told who died"
wait
! expired "$(cat "$work/status_of_stay")" && grep -q 'inside the MPI (MPI_Test) for 30 s' "$work/stays.log" ||
  fail "a rank that never left MPI_Test went on"
