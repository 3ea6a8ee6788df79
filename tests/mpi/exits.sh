#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# exits.sh ranks launcher -n ranks program...: runs tests/mpi/exits.cpp over each transport. The job must end with the code of the rank
# that exits, and the others must say that it has left, long before the timeout.
set -eu
shift
export TUTTI_TIMEOUT=50
for levels in "" yes; do
  code=0
  said=$(TUTTI_TEST_LEVELS=$levels timeout -k 1 40 "$@" 2>&1) || code=$?
  # The launcher may join lines of two ranks.
  told=$(grep -o 'as expected: tutti: rank 1 closed its communicator' <<<"$said" | wc -l)
  if [ $code != 7 ] || [ "$told" != 2 ]; then
    echo "exit code $code: $said"
    exit 1
  fi
done
