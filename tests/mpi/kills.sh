#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kills.sh ranks launcher... program: runs jobs of tests/mpi/kills.cpp with one seed after another, until as many ranks were
# killed as TUTTI_TEST_KILLS says; or 20, or 4 where a job loses only one. The launcher's exit code says nothing, since ranks
# were killed; the survivors print how many they are, and each that it has passed.
set -eu
ranks=$1
shift
seed=${TUTTI_TEST_SEED:-1} killed=0 jobs=0
wanted=${TUTTI_TEST_KILLS:-${TUTTI_TEST_RECOVERY:+4}}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while [ "$killed" -lt "${wanted:-20}" ]; do
  TUTTI_TEST_SEED=$seed "$@" --no-colors >"$log" 2>&1 || true
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
echo "$killed ranks killed in $jobs jobs, all others finished"
