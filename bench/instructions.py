#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many instructions a small call takes, with several versions of the headers: instructions.py NAME=INCLUDE...

Instructions tell what the code does, whatever the machine is busy with: they show a change of 1 %, which times do not. They say nothing of
caches or of waiting, so they are no measure of speed. Needs valgrind (Debian: valgrind). The last column compares the last version
with the first.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

calls = [("all_reduce/packet", 2), ("all_reduce/one_shot", 2), ("all_reduce/packet", 100), ("barrier", 0), ("broadcast", 2),
         ("all_reduce/started", 2), ("isend and irecv", 2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="NAME=INCLUDE")
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        for version in options.versions:
            name, include = version.split("=", 1)
            programs[name] = f"{folder}/{len(programs)}"
            source = pathlib.Path(__file__).with_name("instructions.cpp")
            subprocess.run([options.compiler, "-std=c++20", "-O3", "-I", include, source, "-o", programs[name], "-pthread"], check=True)
        print("| call | floats | rank | " + " | ".join(programs) + " | change |")
        print("|---|---:|---:|" + "---:|" * len(programs) + "---:|")
        for call, floats in calls:
            for rank in (0, 1):
                counts = [count(program, call, floats, rank) for program in programs.values()]
                change = 100 * (counts[-1] / counts[0] - 1)
                print(f"| {call} | {floats} | {rank} | " + " | ".join(map(str, counts)) + f" | {change:+.1f} % |", flush=True)


def count(program, call, floats, rank):
    """The least number of instructions that several calls take. Others wake the other rank, which a loaded machine decides."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/out.%p",
                        program, call, str(floats), str(rank)], check=True, capture_output=True, timeout=300)
        totals = collections.Counter()
        for file in pathlib.Path(folder).glob("out.*.*"):
            found = re.search(r"^summary: (\d+)", file.read_text(), re.MULTILINE)
            if found and int(found[1]) > 0:
                totals[int(found[1])] += 1
        return min(number for number, calls in totals.items() if calls > 2)


if __name__ == "__main__":
    main()
