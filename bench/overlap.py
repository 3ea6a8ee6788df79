#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures how much of a started all_reduce overlaps with a computation. tutti and its peers take turns in one run.
bench/README.md explains the result."""

import argparse
import random
import statistics
import sys

import report
import teams
from measure import Wrong
from run import environment, now_and_load, size

# A team, and what drives progress while its rank computes: the rank, which tests the call; a thread of the library (for Gloo, of the
# caller); or nothing until the rank waits.
CONTENDERS = [("tutti", "test"), ("tutti", "thread"), ("openmpi", "test"), ("openmpi", "nobody"), ("mpich", "test"),
              ("mpich", "nobody"), ("mpich-thread", "thread"), ("gloo", "thread")]
PLACES = {"core": "on the core of the rank", "device": "elsewhere, as on a device; the core of the rank is free"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--build", default="build/release/bench", help="folder of the programs bench_team_*")
    p.add_argument("-n", "--ranks", type=lambda t: [int(n) for n in t.split(",")], default="2,4", help="such as 2,4")
    p.add_argument("-s", "--size", type=size, default="64MiB", help="size of each rank's message of floats")
    p.add_argument("--look-every", type=float, default=50, help="microseconds of computation between two tests")
    p.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    p.add_argument("--samples", type=int, default=5, help="samples in a turn")
    p.add_argument("--timeout", type=int, default=60, help="seconds after which a team that does not answer is left out")
    return p.parse_args()


def turn(options, computes, team, moved, check):
    answers = team.ask(collective="started", kind="float", bytes=options.size, in_place=False, mode="overlap", check=check,
                       samples=options.samples, computes=computes, look_every=options.look_every, moved=moved,
                       buffers="private")
    if not all(a.get("right", True) for a in answers):
        raise Wrong(f"{team.name} gave a wrong result")
    return answers[0]


def row(options, computes, contenders, order):
    """Returns the answers of each contender in every round."""
    turns = {c: [] for c in contenders}
    for _ in range(options.rounds):
        for c in order.sample(list(turns), len(turns)):
            turns[c].append(turn(options, computes, *c, check=not turns[c]))
    return turns


def print_row(options, ranks, computes, turns):
    print(f"\n### {report.size_text(options.size)}, {ranks} ranks, computing {PLACES[computes]}\n")
    print("| contender | progress by | hidden | min..max | all_reduce alone ms | computing ms | both ms |")
    print("|---|---|---:|:---:|---:|---:|---:|")
    for (team, moved), answers in turns.items():
        def middle(key, answers=answers):
            return statistics.median(a[key] for a in answers)
        hidden = [a["hidden"] for a in answers]
        print(f"| {team.name} | {moved} | **{middle('hidden'):.2f}** | {min(hidden):.2f}..{max(hidden):.2f} | "
              f"{middle('call') / 1e3:.1f} | {middle('computing') / 1e3:.1f} | {middle('us') / 1e3:.1f} |", flush=True)


def main():
    options = arguments()
    order = random.Random(1)
    print(f"{now_and_load()['date']}; {environment()['machine']}; {environment()['system']}\n\n"
          f"    {environment()['command']}")
    with teams.folder() as folder:
        for ranks in options.ranks:
            started = {}
            for name in dict(CONTENDERS):
                try:
                    started[name] = teams.Team(name, ranks, options.build, folder, options.timeout)
                except teams.Lost as reason:
                    print(f"\n{name} is left out with {ranks} ranks: {reason}")
            try:
                contenders = [(started[name], moved) for name, moved in CONTENDERS if name in started]
                for computes in PLACES:
                    print_row(options, ranks, computes, row(options, computes, contenders, order))
            finally:
                for team in started.values():
                    team.kill()


if __name__ == "__main__":
    sys.exit(main())
