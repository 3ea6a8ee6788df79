#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A program that uses tutti through a C++ module, without CMake.
# usage: module.sh CLANG PREFIX FOLDER
set -eu
clang=$1 prefix=$2 folder=$3
sources=$(cd "$(dirname "$0")/module" && pwd)

library=$(find "$prefix" -name libtutti.a)
mkdir -p "$folder"
cd "$folder"
"$clang" -std=c++20 -pthread -DTUTTI_COMPILED -isystem "$prefix/include" --precompile "$sources/tutti.cppm" -o tutti.pcm
"$clang" -std=c++20 -pthread -fmodule-file=tutti=tutti.pcm "$sources/main.cpp" tutti.pcm "$library" -lrt -o program
./program
