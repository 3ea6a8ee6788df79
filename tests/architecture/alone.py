#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that each header of the library includes what it uses, in a small part of the time that compiling them one by one takes.

usage: alone.py SOURCE BUILD NEEDS_MPI CLANG FLAG...

clang reads the headers as the submodules of one module. Each is read once, and sees the names and macros of those that it includes, and
of no other. The standard headers are submodules too, so that they are also read once.

They are compiled as for tutti::compiled, where a header sees less than in a header-only program, in which x.hpp includes x_impl.hpp too.
What is true only there is checked besides: the whole library compiles, and no header is included by one that it includes
first, because the order would decide which of the two is complete.

NEEDS_MPI is the pattern of the headers that need mpi.h, which are left out where no FLAG leads to it.
"""

import pathlib
import re
import shutil
import subprocess
import sys

INCLUDE = re.compile(r'#include ([<"])([^>"]+)[>"]')
STANDARD = re.compile(r"^#include <([a-z_]+)>$", re.MULTILINE)


class Header:
    def __init__(self, name, text):
        self.head = []      # included before the first line of code
        self.possible = []  # included under any condition, except for its definitions
        definitions = name.removesuffix(".hpp") + "_impl.hpp"
        self.definitions = [definitions] if f'#include "{definitions}"' in text else []
        in_head = True
        for line in text.splitlines():
            include = INCLUDE.match(line)
            if include and include[2] != definitions:
                self.possible.append(include[2])
                if in_head:
                    self.head.append(include[2])
            elif line and not line.startswith("//") and line != "#pragma once":
                in_head = False

    def all(self):
        return self.possible + self.definitions


def closure(headers, names, edges):
    """All that these names include along the edges, themselves included; names of the system's headers too."""
    out, rest = set(), list(names)
    while rest:
        name = rest.pop()
        if name not in out:
            out.add(name)
            rest += edges(headers[name]) if name in headers else []
    return out


def cycles(headers):
    """Headers that a header includes which they include first; for x_impl.hpp that is x.hpp, which includes it in the end."""
    for name in headers:
        def edges(header):
            return [h for h in header.all() if not (h == name and header.definitions == [name])]
        if name in closure(headers, headers[name].head, edges):
            yield name


def module(name, attributes, paths):
    submodules = "".join(f'  module "{label}" {{ header "{path}" export * }}\n' for label, path in paths.items())
    return f"module {name} {attributes} {{\n{submodules}}}\n"


def main():
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    needs_mpi = re.compile(sys.argv[3])
    compiler = [*sys.argv[4:], "-DTUTTI_COMPILED", f"-I{source}/include", "-w", "-ferror-limit=0"]
    header_only = [flag for flag in compiler if flag != "-DTUTTI_COMPILED"]
    texts = {p.relative_to(source / "include").as_posix(): p.read_text() for p in sorted(source.glob("include/tutti/**/*.hpp"))}
    headers = {name: Header(name, text) for name, text in texts.items()}

    def run(command, text=""):
        return subprocess.run(command, input=text, capture_output=True, text=True)

    def syntax(flags, text):
        return run([*flags, "-fsyntax-only", "-x", "c++", "-"], text)

    mpi = syntax(compiler, "#include <mpi.h>\n").returncode == 0
    checked = [name for name in headers if mpi or not needs_mpi.search(name)]
    failed = []

    def fails(sentence):
        failed.append(sentence)
        print(sentence)

    for name in cycles(headers):
        fails(f"{name} is included by a header that it includes before its own code")
    for name in headers:
        if not needs_mpi.search(name) and "mpi.h" in closure(headers, [name], Header.all):
            fails(f"{name} includes mpi.h, which not every user has")

    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    standard = sorted({name for text in texts.values() for name in STANDARD.findall(text)})
    listed = run([*compiler, "-M", "-x", "c++", "-"], "".join(f"#include <{name}>\n" for name in standard))
    files = {pathlib.Path(path).name: path for path in listed.stdout.split() if "/bits/" not in path}
    everything = build / "headers.map"
    everything.write_text(module("std", "[system]", {name: files[name] for name in standard})
                          + module("tutti", "", {name: source / "include" / name for name in checked}))
    modules = ["-fmodules", "-fno-implicit-module-maps", f"-fmodules-cache-path={build}", "-Xclang", "-fmodules-local-submodule-visibility"]
    results = [run([*compiler, *modules, f"-fmodule-map-file={everything}", "-fmodule-name=tutti", "-Xclang", "-emit-module",
                    "-c", "-x", "c++", everything, "-o", build / "tutti.pcm"])]
    results += [syntax(header_only, f'#include "{name}"\n') for name in ("tutti/tutti.hpp", "tutti/mpi.hpp") if name in checked]
    for result in results:
        if result.returncode != 0:
            fails(result.stderr)
    print(f"{len(checked)} headers, {len(standard)} standard ones: {'failed' if failed else 'each includes what it uses'}")
    if not mpi:
        print("skipped: the headers of MPI, because there is no MPI")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
