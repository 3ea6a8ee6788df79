#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells which instructions of which kernels the PTX machine has executed.

usage: coverage.py [--at-least PERCENT] [--missed N] FILE...

FILE is what programs append to $PTX_COVERAGE, or a folder of such files. An instruction counts as executed if any of their runs has executed it. Counted
are the kernels that were launched and the functions that they call. Prints the share of each kind of kernel and function
that is not complete, the N places in the source with most instructions that were not executed, and the kinds of kernels that
the programs contain but did not launch. The exit status is 1 if the share of all instructions is below PERCENT.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess


def read(paths):
    functions = {}
    for path in [file for path in map(pathlib.Path, paths) for file in (path.iterdir() if path.is_dir() else [path])]:
        with open(path) as lines:
            for line in lines:
                record = json.loads(line)
                known = functions.setdefault((record["name"], record["instructions"]), record)
                known["missed"] = {at: what for at, what in known["missed"].items() if at in record["missed"]}
    return list(functions.values())


def executed(function):
    return len(function["missed"]) < function["instructions"]


def reached_from_launched(functions):
    by_name = collections.defaultdict(list)
    for function in functions:
        by_name[function["name"]].append(function)
    reached, todo = set(), [f["name"] for f in functions if f["kernel"] and executed(f)]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [callee for function in by_name[name] for callee in function["calls"]]
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--at-least", type=float, default=0)
    parser.add_argument("--missed", type=int, default=20)
    arguments = parser.parse_args()

    functions = read(arguments.files)
    names = demangled(sorted({f["name"] for f in functions}))
    reached = reached_from_launched(functions)
    all_of, missed_of, places, idle = (collections.Counter() for _ in range(4))
    for function in functions:
        what = kind(names[function["name"]])
        if function["name"] not in reached:
            if function["kernel"]:
                idle[what] += 1
            continue
        all_of[what] += function["instructions"]
        missed_of[what] += len(function["missed"])
        for text, place in function["missed"].values():
            places[place.split(",")[0] or text.strip()] += 1

    for what, count in sorted(all_of.items()):
        if missed_of[what]:
            print(f"{100 * (1 - missed_of[what] / count):6.1f} %  of {count:7} instructions of {what}")
    total, missed = sum(all_of.values()), sum(missed_of.values())
    share = 100 * (1 - missed / total) if total else 0
    launched = sum(f["kernel"] and f["name"] in reached for f in functions)
    print(f"{share:6.1f} %  of {total:7} instructions of {launched} kernels and of the functions that they call")
    if missed:
        print("\nPlaces with instructions that were not executed:")
        for place, count in places.most_common(arguments.missed):
            print(f"{count:8}  {place}")
    if idle:
        print("\nKernels that were not launched:")
        for what, count in sorted(idle.items()):
            print(f"{count:8}  {what}")
    return 1 if share < arguments.at_least else 0


if __name__ == "__main__":
    raise SystemExit(main())
