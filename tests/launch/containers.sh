#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# containers.sh program: jobs in two containers on the network of their host, with equal user, size and number of the process that started
# the ranks, do not join each other. Exits 77, and says why, where process namespaces are not permitted.
set -u
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $1"
  cat "$work"/*
  exit 1
}

if unshare --pid --fork --mount-proc true 2>/dev/null; then container="unshare --pid --fork --mount-proc"
elif unshare --map-root-user --pid --fork --mount-proc true 2>/dev/null; then
  container="unshare --map-root-user --pid --fork --mount-proc"
else
  echo "skipped: process namespaces are not permitted: $(unshare --pid --fork --mount-proc true 2>&1)"
  exit 77
fi

# start NAME VALUE RANK...: starts these ranks of a job of two in a container, whose process 1 is their parent.
start() {
  name=$1 value=$2
  shift 2
  # shellcheck disable=SC2016,SC2086
  PMI_SIZE=2 $container sh -c 'program=$1 value=$2
    shift 2
    echo "started by process $$"
    for rank; do PMI_RANK=$rank "$program" sum "$value" & done
    wait' sh "$program" "$value" "$@" >"$work/$name" 2>&1 &
}

# Two jobs at once. A sum over ranks of both would be wrong.
export TUTTI_TIMEOUT=30
start one 1 0 1
start other 100 0 1
wait
for job in one other; do
  grep -q "^started by process 1$" "$work/$job" || fail "the process that started $job is not process 1"
  [ "$(grep -c "of 2: right" "$work/$job")" -eq 2 ] || fail "not both ranks of $job were right"
done

# One rank in each container.
export TUTTI_TIMEOUT=2
start first 1 0
start second 1 1
wait
for job in first second; do
  grep -q "of 2: right" "$work/$job" && fail "the ranks of two containers have joined each other"
  grep -q "timed out waiting for rank\|did not open the meeting point" "$work/$job" || fail "$job did not time out"
done
cat "$work"/*
