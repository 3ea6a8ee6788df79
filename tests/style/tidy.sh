#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tidy.sh SOURCE FOLDER flag...: clang-tidy-19 finds nothing in the headers. It reads all of them as one translation unit, which takes
# as long as any source that includes the library. Exits with 77 where clang-tidy-19 is not installed.
set -eu
source=$1 folder=$2
shift 2
if ! command -v clang-tidy-19 >/dev/null; then
  echo "skipped: there is no clang-tidy-19"
  exit 77
fi
(cd "$source/include" && find tutti -name '*.hpp' | sort | sed 's/.*/#include "&"/') >"$folder/all_headers.cpp"
clang-tidy-19 --quiet --config-file="$source/.clang-tidy" --warnings-as-errors='*' "$folder/all_headers.cpp" -- \
  -std=c++20 "-I$source/include" "$@"
