#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells which instructions of which kernels the PTX machine has executed.

usage: coverage.py [--at-least PERCENT] [--each-at-least PERCENT] [--explained FILE] [--missed N] FILE...

FILE is what programs append to $PTX_COVERAGE, or a folder of such files. An instruction counts as executed if any of their
runs has executed it. Counted are the kernels that were launched and the functions that they call; a kernel's share includes these
functions. Prints the share of each kind of kernel and function that is not complete, the N places in the source with most
instructions that were not executed, the kernels below the share asked for, and the kinds of kernels that the programs contain but did
not launch. The exit status is 1 if the share of all instructions or of any kernel is below what is asked for.

--explained: a file of instructions that need not be executed, and do not count if they are not. A line at the margin is a reason. The
indented lines below it tell which instructions it is for: a regular expression that is found in the name of the function, without
`tutti::` and `detail::`, then, after ` @ `, a part of the line of the source. Without that, it is for the whole function. An
explanation that is not needed is reported.
"""

import argparse
import collections
import functools
import json
import pathlib
import re
import subprocess


def read(paths):
    """The functions, each with what no run has executed, and the names of kernels that a run did not launch."""
    functions, idle = {}, set()
    for path in [file for path in map(pathlib.Path, paths) for file in (path.iterdir() if path.is_dir() else [path])]:
        with open(path) as lines:
            for line in lines:
                record = json.loads(line)
                if "idle" in record:
                    idle.add(record["idle"])
                    continue
                known = functions.setdefault((record["name"], record["instructions"]), record)
                known["missed"] = {at: what for at, what in known["missed"].items() if at in record["missed"]}
    return list(functions.values()), idle


def with_callees(functions_named, kernel):
    reached, todo = set(), [kernel]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [callee for function in functions_named[name] for callee in function["calls"]]
    return reached


def demangled(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, out.split("\n")))


def kind(name):
    """The function without template arguments and parameters."""
    name = name.replace("(anonymous namespace)", "").replace("operator()", "call")
    name = re.sub(r"operator(<<|>>|<=|>=|<|>)", "operator", name)
    shorter = None
    while shorter != name:
        name, shorter = re.sub(r"<[^<>]*>", "", name), name
    return re.sub(r"\(.*", "", name).split(" ")[-1]


def short(name):
    return re.sub(r"\b(?:tutti|detail|testing)::", "", name)


@functools.cache
def lines_of(file):
    top = pathlib.Path(__file__).parents[2]
    # nvcc names some headers without their folder; those of kernels have the name to themselves among kernels.
    within = [top / "include" / file, top / "tests" / file, top / "include/tutti/device/kernel" / file]
    return next((path.read_text().split("\n") for path in within if path.is_file()), [])


def source_line(place):
    file, _, number = place.split(",")[0].rpartition(":")
    lines = lines_of(file)
    return lines[int(number) - 1] if file and 0 < int(number) <= len(lines) else ""


class Explanations:
    def __init__(self, path):
        self.needed = {}  # (function, line of the source) -> whether it has explained anything
        if path:
            for line in pathlib.Path(path).read_text().split("\n"):
                if line.startswith(" ") and line.strip():
                    function, _, source = line.strip().partition(" @ ")
                    self.needed[function, source] = False

    def explains(self, name, place):
        line = source_line(place)
        found = [e for e in self.needed if re.search(e[0], name) and e[1] in line]
        self.needed.update((e, True) for e in found)
        return bool(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--at-least", type=float, default=0)
    parser.add_argument("--each-at-least", type=float, default=0)
    parser.add_argument("--explained")
    parser.add_argument("--missed", type=int, default=20)
    arguments = parser.parse_args()

    functions, idle = read(arguments.files)
    names = demangled(sorted({f["name"] for f in functions} | idle))
    functions_named = collections.defaultdict(list)
    for function in functions:
        functions_named[function["name"]].append(function)
    kernels = {f["name"] for f in functions if f["kernel"]}
    callees = {kernel: with_callees(functions_named, kernel) for kernel in kernels}
    never_launched = collections.Counter(kind(names[name]) for name in idle - kernels)

    explanations = Explanations(arguments.explained)
    count, missed = collections.Counter(), collections.Counter()  # by function
    all_of, missed_of, places = (collections.Counter() for _ in range(3))
    explained = 0
    for function in functions:
        name = function["name"]
        what = kind(names[name])
        left = [(text, place) for text, place in function["missed"].values()
                if not explanations.explains(short(names[name]), place)]
        explained += len(function["missed"]) - len(left)
        count[name] += function["instructions"] - len(function["missed"]) + len(left)
        missed[name] += len(left)
        all_of[what] += function["instructions"] - len(function["missed"]) + len(left)
        missed_of[what] += len(left)
        for text, place in left:
            places[place.split(",")[0] or text.strip()] += 1

    for what, total in sorted(all_of.items()):
        if missed_of[what]:
            print(f"{100 * (1 - missed_of[what] / total):6.1f} %  of {total:7} instructions of {what}")
    share = 100 * (1 - sum(missed.values()) / sum(count.values())) if count else 0
    print(f"{share:6.1f} %  of {sum(count.values()):7} instructions of {len(kernels)} kernels and of the functions that they call")
    if arguments.explained:
        print(f"          {explained:7} more instructions are explained")
    if missed:
        print("\nPlaces with instructions that were not executed:")
        for place, number in places.most_common(arguments.missed):
            print(f"{number:8}  {place:50}  {source_line(place).strip()}")
    share_of = {}
    for kernel in kernels:
        total = sum(count[name] for name in callees[kernel])
        share_of[kernel] = 100 * (1 - sum(missed[name] for name in callees[kernel]) / total) if total else 100
    below = sorted((share_of[kernel], kernel) for kernel in kernels if share_of[kernel] < arguments.each_at_least)
    if below:
        print(f"\nKernels of whose instructions less than {arguments.each_at_least:g} % were executed:")
        for part, kernel in below:
            print(f"{part:6.1f} %  {re.sub(r'[(].*', '', short(names[kernel]).replace('(collective)', 'collective '))}")
    if never_launched:
        print("\nKernels that were not launched:")
        for what, number in sorted(never_launched.items()):
            print(f"{number:8}  {what}")
    for (function, source), needed in explanations.needed.items():
        if not needed:
            print(f"\nThis explanation is not needed: {function}" + (f" @ {source}" if source else ""))
    return 1 if share < arguments.at_least or below else 0


if __name__ == "__main__":
    raise SystemExit(main())
