#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# format.sh SOURCE: every source of the project is as clang-format-19 writes it. Exits with 77 where that is not installed.
set -eu
cd "$1"
if ! command -v clang-format-19 >/dev/null; then
  echo "skipped: there is no clang-format-19"
  exit 77
fi
sources=$(find . \( -path ./build -o -path ./.git \) -prune -o -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print)
echo "$sources" | xargs clang-format-19 --dry-run -Werror || {
  echo "Run clang-format-19 -i on these files."
  exit 1
}
