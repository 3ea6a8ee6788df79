#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# not_built.sh CMAKE SOURCE FOLDER COMPILER VERSION: installs tutti without building it, and then asks for tutti::compiled.
set -eu
cmake=$1 source=$2 folder=$3 compiler=$4 version=$5
rm -rf "$folder"
"$cmake" -S "$source" -B "$folder/build" -DCMAKE_CXX_COMPILER="$compiler" -DTUTTI_TOOLS=OFF
"$cmake" --install "$folder/build" --prefix "$folder/prefix"
"$cmake" -S "$source/tests/consumer/installed" -B "$folder/consumer" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$folder/prefix" -DTUTTI_PREFIX="$folder/prefix" -DTUTTI_VERSION="$version"
