#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kills.sh ranks launcher... program: runs jobs of tests/mpi/kills.cpp with one seed after another, until as many ranks were
# killed as TUTTI_TEST_KILLS says; or 20, or 4 where a job loses only one. Meanwhile ranks are stopped for moments. The
# launcher's exit code says nothing, since ranks were killed; the survivors print how many they are, and each that it has
# passed.
set -eu
ranks=$1
shift
seed=${TUTTI_TEST_SEED:-1} killed=0 jobs=0 stops=0
wanted=${TUTTI_TEST_KILLS:-${TUTTI_TEST_RECOVERY:+4}}
log=$(mktemp)
# Stops one rank after another for a moment until the job has ended. The ranks are children of the launcher.
disturb() {
  while kill -0 "$1" 2>/dev/null; do
    rank=$(ps -o pid= --ppid "$1" | shuf -n 1)
    if [ -n "$rank" ] && kill -STOP $rank 2>/dev/null; then
      stops=$((stops + 1))
      sleep 0.03
      kill -CONT $rank 2>/dev/null || true  # it may have been killed
    fi
    sleep 0.05
  done
  wait "$1" || true
}
trap 'rm -f "$log"' EXIT
while [ "$killed" -lt "${wanted:-20}" ]; do
  TUTTI_TEST_SEED=$seed "$@" --no-colors >"$log" 2>&1 &
  disturb $!
  left=$(sed -n 's/^one of \([0-9]*\) survivors has finished$/\1/p' "$log" | sort -u)
  finished=$(grep -c '^one of .* has finished$' "$log" || true)
  passed=$(grep -c '^\[doctest\] Status: SUCCESS!' "$log" || true)
  if [ "$finished" = 0 ] || [ "$left" != "$finished" ] || [ "$passed" != "$finished" ]; then
    cat "$log"
    echo "seed $seed: $finished ranks have finished and $passed have passed, of ${left:-an unknown number of} survivors"
    exit 1
  fi
  grep '^seed' "$log" || true
  killed=$((killed + ranks - left)) seed=$((seed + 1)) jobs=$((jobs + 1))
done
echo "$killed ranks killed and $stops stopped in $jobs jobs, all others finished"
