#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the kernels of a program wrong in one place at a time, and expects the program to fail on the PTX machine.

usage: mutants.py [--sample N] [--kind KIND]... [--known FILE] [--timeout SECONDS] PROGRAM [ARGUMENT...]

A mutant changes all instructions of one kind that come from the same place in the source, or from the same function if the
program was compiled without -lineinfo: it weakens an order or a scope, removes a barrier or a fence, swaps a store with the one before,
or masks another bit. FILE lists mutants that may survive, a line `kind place: reason` each. Prints each mutant with what
became of it. The exit status is 1 if one survives that FILE does not list. --sample takes every N-th mutant.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

# kind: what it replaces in an instruction, by what.
WEAKER = {
    "acquire": (r"\bld\.acquire\b", "ld.relaxed"),
    "release": (r"\bst\.release\b", "st.relaxed"),
    "ordered_update": (r"\batom\.acq_rel\b", "atom.relaxed"),
    "system_scope": (r"\b((?:ld|st|atom)\.\w+)\.sys\b", r"\1.gpu"),
    "device_scope": (r"\b((?:ld|st|atom)\.\w+)\.gpu\b", r"\1.cta"),
    "atomic": (r"\b(ld|st)\.(?:relaxed\.(?:sys|gpu)|volatile)\b", r"\1"),
    "barrier": (r"\b(?:barrier\.sync|bar\.sync)\s+0;", ""),
    "alias": (r"\bfence\.proxy\.alias;", ""),
    "vote": (r"\bbar\.red\.or\.pred\s+(%p\d+), 0, (%p\d+);", r"mov.pred \1, \2;"),
    "bit": (r"\b(and\.b(?:32|64)\s.*), 1;", r"\1, 2;"),
}
STORE = re.compile(r"^\s*st\.(?:\w+\.)*global")
STRONG_STORE = re.compile(r"^\s*st\.(?:release|relaxed|volatile)\.(?:\w+\.)*global")
LABEL_OR_BRANCH = re.compile(r"^\s*(?:\$\w+:|(?:@\S+\s+)?(?:bra|call|ret|bar|barrier)\b)")


def places(lines):
    """For each line, where its instruction comes from: the source and the calls that led there, or its function."""
    files = dict(re.findall(r'^\.file\s+(\d+)\s+"(?:.*/)?(.*)"', "\n".join(lines), re.MULTILINE))
    place = function = ""
    for line in lines:
        if found := re.search(r"\.(?:entry|func)\b.*?\b(_Z\w+)", line):
            place = function = found[1]
        elif line.lstrip().startswith(".loc"):
            numbers = re.findall(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)", line)
            place = " in ".join(f"{files.get(file, function)}:{number}" for file, number in numbers)
        yield place


def store_before(lines, at):
    for before in range(at - 1, -1, -1):
        if LABEL_OR_BRANCH.match(lines[before]):
            return None
        if STORE.match(lines[before]):
            return before
    return None


def mutants(text):
    lines = text.split("\n")
    where = list(places(lines))
    edits = collections.defaultdict(dict)  # (kind, place) -> line number -> new line
    for at, line in enumerate(lines):
        if line.lstrip().startswith((".", "//")):
            continue
        for kind, (pattern, replacement) in WEAKER.items():
            changed = re.sub(pattern, replacement, line)
            if changed != line:
                edits[kind, where[at]][at] = changed
        if STRONG_STORE.match(line):
            before = store_before(lines, at)
            if before is not None:
                edits["store_order", where[at]].update({at: lines[before], before: line})
    for (kind, place), changes in edits.items():
        yield kind, place, "\n".join(changes.get(at, line) for at, line in enumerate(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=[*WEAKER, "store_order"])
    parser.add_argument("--known")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = [arguments.program, *arguments.arguments]

    known = {}
    if arguments.known:
        with open(arguments.known) as lines:
            for line in lines:
                if line.strip() and not line.startswith("#"):
                    what, reason = line.strip().split(": ", 1)
                    known[what] = reason

    with tempfile.TemporaryDirectory() as folder:
        saved, changed = os.path.join(folder, "saved.ptx"), os.path.join(folder, "changed.ptx")
        subprocess.run(command, env={**os.environ, "PTX_SAVE": saved}, check=True)
        with open(saved) as file:
            text = file.read()
        all_of_them = sorted(mutants(text))
        chosen = [m for m in all_of_them if not arguments.kind or m[0] in arguments.kind][:: arguments.sample]
        killed, survivors = 0, []
        for kind, place, mutant in chosen:
            with open(changed, "w") as file:
                file.write(mutant)
            began = time.monotonic()
            try:
                result = subprocess.run(command, env={**os.environ, "PTX_LOAD": changed}, capture_output=True,
                                        text=True, errors="replace", timeout=arguments.timeout)
                lives = result.returncode == 0
                why = next((line for line in result.stderr.splitlines() if line.startswith("PTX machine:")), "")
                why = why or next((line for line in result.stdout.splitlines() if "FAILED" in line), "")
            except subprocess.TimeoutExpired:
                lives, why = False, "runs too long"
            killed += not lives
            if lives:
                survivors.append(f"{kind} {place}")
                why = known.get(survivors[-1], "not expected to survive")
            print(f"{'survives' if lives else 'is caught'} {time.monotonic() - began:4.0f} s  {kind} {place}: {why[:160]}",
                  flush=True)
        print(f"{killed} of {len(chosen)} mutants were caught")
        unknown = [s for s in survivors if s not in known]
        return 1 if unknown or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
