#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A program that is compiled with the flags of pkg-config, without CMake: with the headers alone, which cause no warning even where a
# project asks for many and does without run-time type information, and with the compiled library.
# usage: pkg_config.sh PKG_CONFIG COMPILER PREFIX VERSION PROGRAM
set -eu
pkg_config=$1 compiler=$2 prefix=$3 version=$4 program=$5
sources=$(dirname "$0")/subdirectory

file=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_PATH="${file%/*}"
found=$("$pkg_config" --modversion tutti)
if [ "$found" != "$version" ]; then
  echo "pkg-config finds version $found, not $version"
  exit 1
fi

# Word splitting is what a Makefile does with these flags.
strict="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Werror -fno-rtti"
"$compiler" -std=c++20 -fsyntax-only $strict -include tutti/training.hpp "$sources/main.cpp" $("$pkg_config" --cflags tutti)
"$compiler" -std=c++20 "$sources/main.cpp" "$sources/other.cpp" $("$pkg_config" --cflags --libs tutti-compiled) -o "$program"
"$program"

# The library was built without the checks of -D_GLIBCXX_DEBUG, which change the layout of containers.
if said=$("$compiler" -std=c++20 -D_GLIBCXX_DEBUG "$sources/main.cpp" "$sources/other.cpp" $("$pkg_config" --cflags --libs tutti-compiled) \
  -o "$program" 2>&1); then
  echo "it links containers of different layouts"
  exit 1
fi
case $said in
  *must_be_built_with_GLIBCXX_DEBUG*) ;;
  *) echo "$said" && exit 1 ;;
esac
