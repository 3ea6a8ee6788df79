#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# abort.sh ranks launcher -n ranks program...: runs tests/mpi/abort.cpp. The job must end with the code of the rank that aborts it, and
# print the reason.
set -eu
code=0
shift
said=$(timeout -k 1 60 "$@" 2>&1) || code=$?
if [ $code != 7 ] || ! grep -q 'tutti: rank 0 has aborted the job: the disk is full' <<<"$said"; then
  echo "exit code $code: $said"
  exit 1
fi
