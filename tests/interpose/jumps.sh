#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# jumps.sh COMPILER SOURCE OBJECT OPTION...: compiles a source of the library with -O2, and fails if a function jumps into one of the
# MPI's: that would see the return address of its caller, a Fortran library, and call the function again, for ever.
set -eu
compiler=$1 source=$2 object=$3
shift 3
"$compiler" -std=c++20 -O2 -fPIC -DOMPI_SKIP_MPICXX "$@" -w -c "$source" -o "$object"
code=$(objdump -dr --no-show-raw-insn "$object")
echo "$code" | grep -q 'R_X86_64_.*PMPI_Wait-'
if echo "$code" | grep -A1 '	jmp ' | grep 'R_X86_64_P.*PMPI_'; then
  echo "a function of $source ends in a jump to this one; is -fno-optimize-sibling-calls missing?"
  exit 1
fi
