#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that each header of the library compiles alone, in a fraction of the time that this takes one by one.

usage: alone.py SOURCE BUILD COMPILER... [--mpi FLAG...]

They are compiled as for tutti::compiled, where a header sees less than in a header-only program, in which x.hpp includes x_impl.hpp too.
What is true only there is checked besides: the whole library compiles, and no header is included by one that it includes
first, because the order would decide which of the two is complete.

A header sees the same names behind a header that it includes before its own first line of code. Therefore, the latter may be read from
a precompiled file, and one run of the compiler checks a row of headers, each of which includes the one before. This is as strict as
checking each by itself. Headers whose text, and that of what they include, has not changed since they last compiled are not compiled
again.

The headers of MPI are compiled with the flags behind --mpi, or left out if there are none.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

INCLUDE = re.compile(r'#include ([<"])([^>"]+)[>"]')
NEEDS_MPI = re.compile(r"/(mpi|hierarchical|native)/|/mpi\.hpp$")
MAX_PRECOMPILED = 8
JOBS = 2  # as many as ctest has been told
SYSTEM_HEADER = 30_000  # what parsing one costs, in bytes of our own headers
LOADING = 150_000  # what reading a precompiled header costs, likewise


class Header:
    def __init__(self, name, text):
        self.size = len(text)
        self.head = []      # included before the first line of code
        self.certain = []   # included under no condition
        self.possible = []  # included under any, except for its definitions
        definitions = name.removesuffix(".hpp") + "_impl.hpp"
        self.definitions = [definitions] if f'#include "{definitions}"' in text else []
        in_head, depth = True, 0
        for line in text.splitlines():
            include = INCLUDE.match(line)
            if include and include[2] != definitions:
                self.possible.append(include[2])
                if depth == 0:
                    self.certain.append(include[2])
                if in_head:
                    self.head.append(include[2])
            elif line and not line.startswith("//") and line != "#pragma once":
                in_head = False
                depth += line.startswith("#if") - line.startswith("#endif")

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


def choose(headers, usable, cost):
    """The headers to precompile: each is the one that saves most beside those chosen so far."""
    chosen, saved = [], dict.fromkeys(headers, 0)
    while len(chosen) < MAX_PRECOMPILED:
        def gain(candidate):
            return sum(max(0, cost[candidate] - LOADING - saved[h]) for h in usable[candidate]) - 2 * cost[candidate]
        best = max(sorted(headers), key=gain)
        if gain(best) <= 0:
            break
        chosen.append(best)
        for h in usable[best]:
            saved[h] = max(saved[h], cost[best] - LOADING)
    return chosen


def in_rows(names, follow):
    """Lists of these names, as few as possible, in each of which every name but the first follows the one before."""
    before, after = {}, {}

    def append(name, tried):  # to a row, whose former continuation may have to find another
        for one in follow(name):
            if one not in tried:
                tried.add(one)
                if one not in before or append(before[one], tried):
                    before[one], after[name] = name, one
                    return True
        return False

    for name in names:
        append(name, set())
    rows = []
    for name in names:
        if name not in before:
            rows.append([name])
            while rows[-1][-1] in after:
                rows[-1].append(after[rows[-1][-1]])
    return rows


def main():
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    arguments, mpi = sys.argv[3:], None
    if "--mpi" in arguments:
        at = arguments.index("--mpi")
        arguments, mpi = arguments[:at], arguments[at + 1:]
    compiler = [*arguments, f"-I{source}/include"]
    texts = {p.relative_to(source / "include").as_posix(): p.read_text() for p in sorted(source.glob("include/tutti/**/*.hpp"))}
    headers = {name: Header(name, text) for name, text in texts.items()}
    checked = [name for name in headers if mpi or not NEEDS_MPI.search(name)]
    flags = {name: mpi if NEEDS_MPI.search(name) else [] for name in checked}

    reach = {name: closure(headers, [name], lambda h: h.possible) for name in headers}
    before = {name: closure(headers, headers[name].head, lambda h: h.certain) for name in headers}
    cost = {name: sum(headers[h].size if h in headers else SYSTEM_HEADER for h in closure(headers, [name], lambda h: h.certain))
            for name in headers}

    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
    def digest(name):
        parts = [version, *compiler, *flags[name], *(texts[h] for h in sorted(closure(headers, [name], Header.all)) if h in texts)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()
    build.mkdir(parents=True, exist_ok=True)
    memory = build / "compiled.json"
    known = json.loads(memory.read_text()) if memory.exists() else {}
    digests = {name: digest(name) for name in checked}
    todo = [name for name in checked if known.get(name) != digests[name]]

    usable = {k: [h for h in todo if k in before[h] and h not in reach[k] and (flags[h] or not flags[k])] for k in checked}
    chosen = choose(checked, usable, cost)
    folder = build / "precompiled"

    def stub(name):
        return folder / name.replace("/", "_")

    def run(names, output, *options):
        command = [*compiler, *flags[names[-1]], "-O0", *options, "-o", output]
        return subprocess.run(command, input="".join(f'#include "{n}"\n' for n in names), capture_output=True, text=True)

    def precompile(name):
        stub(name).write_text(f'#include "{name}"\n')
        result = run([name], f"{stub(name)}.gch", "-DTUTTI_COMPILED", "-x", "c++-header", stub(name))
        return name if result.returncode == 0 else None  # if it fails, its own check says why

    def precompiled_for(name):
        return max((k for k in ready if name in usable[k]), key=cost.get, default=None)

    def check(row):
        options = []
        if precompiled_for(row[0]):
            options = ["-Winvalid-pch", "-Werror=invalid-pch", "-include", stub(precompiled_for(row[0]))]
        return run(row, "/dev/null", "-DTUTTI_COMPILED", "-fsyntax-only", *options, "-x", "c++", "-")

    def check_header_only(name):
        return run([name], "/dev/null", "-fsyntax-only", "-x", "c++", "-")

    failed = []
    for name in cycles(headers):
        failed.append(name)
        print(f"{name} is included by a header that it includes before its own code")
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        folder.mkdir(exist_ok=True)
        ready = [name for name in pool.map(precompile, chosen) if name]
        behind = {name: precompiled_for(name) for name in todo}
        rows = in_rows(todo, lambda name: [h for h in usable[name] if behind[h] == behind[name]])
        results = list(zip(rows, pool.map(check, rows)))
        whole = [name for name in ("tutti/tutti.hpp", "tutti/mpi.hpp") if name in todo]
        results += zip(([name] for name in whole), pool.map(check_header_only, whole))
    shutil.rmtree(folder)
    for row, result in results:
        if result.returncode != 0:
            failed += row
            print(f"{', then '.join(row)}: " + ("do not compile in this order" if row[1:] else "does not compile alone"))
            print(result.stderr)
    known |= {name: digests[name] for name in todo}
    memory.write_text(json.dumps({name: known[name] for name in checked if name not in failed}))
    print(f"{len(checked)} headers, {len(todo)} of them compiled in {len(rows)} rows, with {len(ready)} precompiled ones: "
          f"{len(failed)} failed")
    if mpi is None:
        print("skipped: the headers of MPI, because there is no MPI")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
