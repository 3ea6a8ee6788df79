#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The recipe for Spack says what the CMake files say: options, dependencies, compilers; tools/install and tools/test install the packages
that these name. usage: spack.py SOURCES"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
recipe = next(root.glob("packaging/spack/spack_repo/tutti/packages/tutti/package.py")).read_text()
wrong = []


def expect(condition, sentence):
    if not condition:
        wrong.append(sentence)


def read(*patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in root.glob(pattern))


cmake = read("CMakeLists.txt", "cmake/*.cmake", "tools/**/CMakeLists.txt")

options = re.findall(r"define(?:_from_variant)?\(\s*f?\"(TUTTI_\w+)", recipe)
expect(options, "the recipe passes no option of tutti's")
for option in options:
    expect(re.search(rf"(option|set|find_program)\({option}\b", cmake) or f"find_program({option}$" in cmake,
           f"the recipe passes {option}, which CMake does not know")

# The packages that the tools include, under the names by which Spack knows them.
sources = read("tools/**/*.cpp", "tools/**/*.hpp")
rows = re.findall(r'^  "(\S+) +(\S+) +\S+ +([\w-]+)"', cmake.split("set(TUTTI_PACKAGES")[1], re.MULTILINE)
used = {}
for pattern, name, debian in rows:
    if re.search(rf"#include <{pattern.replace(2 * chr(92), chr(92))}", sources):
        used[name.lower().replace("_", "-")] = debian
named = set(re.findall(r"depends_on\(\"([\w-]+)", recipe)) - {"cxx", "cmake", "cuda"}
expect(used.keys() | {"mpi"} == named, f"the tools include {sorted(used)}, and the recipe depends on {sorted(named)}")

installed = {script: set(re.findall(r"=([\w-]+)", read(f"tools/{script}"))) for script in ("install", "test")}
for name, debian in used.items():
    expect(name == "mpi" or debian in installed["install"], f"tools/install does not install {debian}, which a tool needs")
for pattern, name, debian in rows:
    expect(debian in installed["test"], f"tools/test does not install {debian}")

minimum = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", cmake).group(1)
expect(f'"cmake@{minimum}:"' in recipe, f"the recipe does not depend on cmake@{minimum}:")

needs = re.search(r"compiler: g\+\+ (\d+), clang (\d+)", (root / "README.md").read_text())
for compiler, version in zip(("gcc", "llvm"), needs.groups()):
    expect(f'"%{compiler}@:{int(version) - 1}"' in recipe, f"the recipe does not exclude {compiler} before {version}")

hello = re.search(r'join_path\("examples", "(\S+)"\)', recipe)
expect(hello and (root / "examples" / hello.group(1)).exists(), "the example that the recipe runs does not exist")

print("\n".join(wrong) or "the recipe, the scripts and the CMake files agree")
sys.exit(bool(wrong))
