#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# uncaught.sh ranks launcher -n ranks program...: runs tests/mpi/uncaught.cpp under a launcher that leaves other ranks alone when one has
# died. One rank must print the error in full, and each of the others a line that refers to it.
set -eu
. "$(dirname "$0")/survivors_stay.sh"

count() { grep -c "$1" <<<"$said" || true; }
for transport in hierarchical mpi; do
  said=$(TUTTI_TEST_TRANSPORT=$transport timeout -k 1 60 "$launcher" $continues -n "$ranks" $outlive "$@" 2>&1 ||
    echo "the launcher ended with status $?")
  if [ "$(count 'tutti: ranks disagree in call')" != 1 ] ||
    [ "$(count 'tutti: rank . ends too (mismatch); see the error of rank')" != $((ranks - 1)) ]; then
    echo "over $transport: $said"
    exit 1
  fi
done
