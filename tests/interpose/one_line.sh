#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# one_line.sh MPIRUN LIBRARY PROGRAM PATTERN: the program succeeds on two ranks, and the library prints a single line, which
# matches the pattern.
set -eu
mpirun=$1 library=$2 program=$3 pattern=$4

report=$("$mpirun" -n 2 env LD_PRELOAD="$library" "$program" strict 2>&1) || {
  echo "$report"
  exit 1
}
echo "$report"
[ "$(echo "$report" | grep -c '^tutti: ')" -eq 1 ]
echo "$report" | grep -q "^tutti: $pattern"
