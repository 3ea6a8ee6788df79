#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs all programs of the PTX machine with one seed after the other, until one fails.

usage: seeds.py [--first SEED] [--seeds N] [--seconds S] [--jobs N] [--only NAME]... BUILD

BUILD is the folder of a build whose tests ptx.*.build have passed. The seed decides how threads interleave. Runs N seeds (1000)
from SEED (1) on, --jobs programs at a time (as many as there are cores). When a program fails or takes longer than ten minutes, prints
the end of its output and the command that repeats the run, and exits with 1. After S seconds, begins no other seed. Programs with
several processes also depend on time, so they may need more than one repetition.
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import shlex
import subprocess
import sys
import time


def run(command, seed):
    environment = dict(word.split("=", 1) for word in command if "=" in word.split("/")[0])
    program = [word for word in command if "=" not in word.split("/")[0]]
    environment["PTX_SEED"] = str(seed)
    try:
        result = subprocess.run(program, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600)
        failed, output = result.returncode != 0, f"{result.stdout}exit status {result.returncode}\n"
    except subprocess.TimeoutExpired as e:
        failed, output = True, (e.stdout or b"").decode(errors="replace") + "\nIt took longer than ten minutes.\n"
    again = " ".join([*(f"{name}={value}" for name, value in environment.items()), shlex.join(program)])
    return failed, output, again


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", action="append")
    parser.add_argument("build")
    arguments = parser.parse_args()

    with open(pathlib.Path(arguments.build) / "tests" / "ptx" / "programs") as lines:
        commands = [shlex.split(line) for line in lines if line.strip()]
    if arguments.only:
        commands = [c for c in commands if any(pathlib.Path(word).name in arguments.only for word in c)]
    began, passed, waiting = time.monotonic(), 0, collections.deque()

    def all_runs():
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            if time.monotonic() - began > arguments.seconds:
                return
            yield from ((seed, command) for command in commands)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = all_runs()
        while True:
            for seed, command in itertools.islice(runs, arguments.jobs + 1 - len(waiting)):
                waiting.append((seed, pool.submit(run, command, seed)))
            if not waiting:
                break
            of_seed, first = waiting.popleft()
            failed, output, again = first.result()
            if failed:
                for _, later in waiting:
                    later.cancel()
                print(f"{output[-4000:]}\nseed {of_seed} fails after {passed} runs that passed. To repeat it:\n{again}")
                return 1
            passed += 1
            if not waiting or waiting[0][0] != of_seed:
                print(f"seed {of_seed}: all passed; {passed} runs in {time.monotonic() - began:.0f} s", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
