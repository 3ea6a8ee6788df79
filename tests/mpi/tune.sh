#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tune.sh MPIRUN TOOL: tutti-tune-<mpi> adds rules to a table. If it cannot, all ranks end with a sentence, and none waits for another.
set -eu
mpirun=$1 tool=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refused CODE SENTENCE ARGUMENT...
refused() {
  code=0 expected=$1 sentence=$2
  shift 2
  timeout 60 "$mpirun" -n 2 "$tool" -c barrier -s 0.2 "$@" >"$work/said" 2>&1 || code=$?
  if [ $code -ne "$expected" ] || ! grep -q -F -e "$sentence" "$work/said"; then
    echo "$*: exit code $code"
    cat "$work/said"
    exit 1
  fi
}

refused 0 "wrote $work/table" -o "$work/table"
grep -q '^rule barrier 2 .* messages ' "$work/table"
# What it did not measure stays, and the table says what it is of.
printf 'tutti-tuning 1\ncommand an earlier one\nlink across 31000000 8500000\n' >"$work/table"
refused 0 "wrote $work/table" -o "$work/table"
grep -q '^link across 31000000 8500000$' "$work/table"
grep -q '^command an earlier one; mpirun ' "$work/table"
grep -q "^machine $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), " "$work/table"
grep -q "^date $(date -u +%Y)" "$work/table"
# A table of another machine is replaced.
printf 'tutti-tuning 1\nmachine Other CPU, 64 cores\nlink across 31000000 8500000\n' >"$work/table"
refused 0 "replaces the table of another machine, Other CPU, 64 cores" -o "$work/table"
! grep -q '^link across ' "$work/table"

refused 1 "tutti: $work is a folder" -o "$work"
refused 2 "The following argument was not expected: --bogus" --bogus
refused 0 "$(basename "$tool") " --version
