#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# chaos_kills.sh ranks launcher -n ranks program...: runs jobs of tests/mpi/chaos_kills.cpp under a launcher that leaves other ranks
# alone when one has died: as many as TUTTI_TEST_CHAOS says, with one seed after another from TUTTI_TEST_SEED on. Each job must end,
# with the same code and sentence on all survivors. Then a job runs under the launcher as users start it, which must end all ranks. No
# job leaves a process, and so none of tutti's memory, which has no name.
set -eu
. "$(dirname "$0")/survivors_stay.sh"
first=${TUTTI_TEST_SEED:-1} jobs=${TUTTI_TEST_CHAOS:-8}
export TUTTI_TIMEOUT=${TUTTI_TEST_PATIENCE:-3}
names=(flat "one node" "nodes of two" "unseen by one")

processes() { pgrep -fc -- "$mark" || true; }
fail() {
  cat "$work/log"
  echo "seed $seed, ${names[seed % 4]}: $*"
  for process in $(pgrep -f -- "$mark"); do kill -9 "$process" || true; done
  exit 1
}
# Ranks may need a moment to end after their launcher.
none_left() {
  for _ in $(seq 100); do
    [ "$(processes)" = 0 ] && return 0
    sleep 0.1
  done
  return 1
}

if [ -n "$outlive" ]; then
  export UCX_TLS=^cma  # it aborts a rank that reads the memory of one that has died
  export UCX_TCP_PUT_ENABLE=n  # over TCP, it aborts one that writes there
fi
if [ "$continues" != --enable-recovery ]; then export TUTTI_NATIVE=0; fi  # there it is the default

for seed in $(seq "$first" $((first + jobs - 1))); do
  mark="--chaos-kills=$$-$seed"
  export TUTTI_TEST_SEED=$seed
  timeout -k 1 90 "$launcher" $continues -n "$ranks" $outlive "$@" "$mark" --no-colors >"$work/log" 2>&1 && status=0 || status=$?
  [ "$status" != 124 ] && [ "$status" != 137 ] || fail "the job did not end"
  told=$(grep -c '^rank [0-9]* was told' "$work/log" || true)
  [ "$told" = $((ranks - 1)) ] || fail "$told ranks were told who died"
  answers=$(sed -n 's/^rank [0-9]* was told: code //p' "$work/log" | sort -u)
  [ "$(echo "$answers" | wc -l)" = 1 ] || fail "ranks were told different things"
  none_left || fail "processes are left"
  found=$(sed -n 's/^rank \([0-9]* killed, .* in operation [0-9]*\) by .*/\1/p' "$work/log" | tr -d ,)
  echo "seed $seed, ${names[seed % 4]}: $(echo "$found" | awk '{
    victim = $1; named[$3] = 1
    if ($6 > longest) longest = $6
    if ($10 > operation) operation = $10
  } END {
    for (n in named) all = all " " n
    print "rank " victim " killed in operation " operation + 0 ", code '"${answers%%:*}"' told within " longest " ms, named:" all
  }')"
done

mark="--chaos-kills=$$-alone"
timeout -k 1 90 "$launcher" -n "$ranks" "$@" "$mark" --no-colors >"$work/log" 2>&1 && status=0 || status=$?
case $status in
  124) fail "the job did not end" ;;
  0) [ -n "$outlive" ] || fail "status 0 of a job whose rank was killed" ;;  # of MPICH's launcher, it does not always tell
esac
none_left || fail "processes are left"
echo "$jobs jobs lost a rank, and all survivors were told the same; the launcher ended one more job"
