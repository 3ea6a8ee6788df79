#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times tutti's collectives and those of every installed peer, which take turns in one run. bench/README.md explains how to
read the result."""

import argparse
import os
import platform
import random
import re
import shlex
import sys
import time

import report
import teams
from measure import Contender, Row, Wrong, first, load

COLLECTIVES = ["all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
               "barrier", "point_to_point", "window", "started"]
REDUCTIONS = ["all_reduce", "reduce", "reduce_scatter", "started"]
KINDS = ["float", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "complex", "struct", "lambda"]
# tutti's contenders over an MPI: their names, transports and algorithms.
OVER_MPI = {"tutti-mpi": ("mpi", "automatic"), "native": ("mpi", "native"), "hierarchical": ("hierarchical", "automatic")}
UNITS = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20}


# -- Command line.

def size(text):
    match = re.fullmatch(r"(\d+) ?([A-Z]*)", text.upper())
    if not match or match[2] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 8, 32KiB or 1MiB")
    return int(match[1]) * UNITS[match[2]]


def sizes(text):
    out = []
    for part in text.split(","):
        match = re.fullmatch(r"(.+)\.\.([^*]+)(?:\*(\d+))?", part)
        if not match:
            out.append(size(part))
            continue
        one, last, factor = size(match[1]), size(match[2]), int(match[3] or 4)
        if one < 1 or factor < 2:
            raise argparse.ArgumentTypeError(f"{part}: sizes begin at 1 and grow by 2 or more")
        while one <= last:
            out.append(one)
            one *= factor
    return sorted(set(out))


def words(*known):
    def parse(text):
        out = list(known) if text == "all" else text.split(",")
        for word in out:
            if known and word not in known:
                raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(known)}")
        return out
    return parse


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--build", default="build/release/bench", help="folder of the programs bench_team_*")
    p.add_argument("--output", default="build/bench/run", help="write results to this name with .jsonl, .md, .svg and .png appended")
    p.add_argument("-n", "--ranks", type=lambda t: [int(n) for n in t.split(",")], default="2", help="such as 2,4,8")
    p.add_argument("-c", "--collectives", type=words(*COLLECTIVES), default="all_reduce",
                   help=f"all, or a list of {', '.join(COLLECTIVES)}")
    p.add_argument("-s", "--sizes", type=sizes, default="8..128MiB*4", help="8,2KiB or from..to*factor")
    p.add_argument("-m", "--modes", type=words("it", "b2b"), default="it,b2b",
                   help="it: owners rewrite their inputs before every call; b2b: calls back to back")
    p.add_argument("--places", type=words("out", "in"), default="out", help="out of place, in place")
    p.add_argument("--kinds", type=words(*KINDS), default="float",
                   help=f"element types and operations, of {', '.join(KINDS)}; MPIs need MPI_Op_create for all but float and complex")
    p.add_argument("--buffers", type=words("private", "library"), default="private,library",
                   help="tutti's arrays: ordinary ones as the peers have, or from comm.allocate")
    p.add_argument("--tutti", type=words(), metavar="PINS",
                   help="algorithm[/protocol] of each tutti contender, such as automatic,one_shot/staged,two_shot/pull")
    p.add_argument("--over", choices=["shm", *teams.MPIS], default="shm",
                   help="what tutti runs over; over an MPI, the default peer is that MPI")
    p.add_argument("--peers", type=words(*teams.PEERS), help=f"all, or a list of {', '.join(teams.PEERS)}")
    p.add_argument("--repeats", type=int, default=5, help="undisturbed turns of each contender")
    p.add_argument("--extra", type=int, default=5, help="limit of further turns if some were disturbed or ratios spread")
    p.add_argument("--block-ms", type=float, default=10, help="duration of a turn in milliseconds")
    p.add_argument("--timeout", type=int, default=60, help="seconds after which a team that does not answer is left out")
    p.add_argument("--no-plot", action="store_true")
    options = p.parse_args()
    if min(options.ranks) < 2 or options.repeats < 1:
        p.error("at least 2 ranks and 1 repeat")
    options.peers = options.peers or ([options.over] if options.over in teams.MPIS else teams.PEERS)
    return options


# -- The run.

def start_teams(options, ranks, folder, say):
    ours = "tutti" if options.over == "shm" else f"tutti-{options.over}"
    for name in [ours] + options.peers:
        try:
            yield teams.Team(name, ranks, options.build, folder, options.timeout)
        except teams.Lost as reason:
            if name == ours:
                raise
            say(f"{name} is left out with {ranks} ranks: {reason}")


def contenders_of(options, started):
    out = []
    for team in started:
        if not team.ours:
            out.append(Contender(team.name, "limit" if team.name == teams.LIMIT else "peer", team))
            continue
        for name, transport, buffers, pin in columns_of(options):
            algorithm, _, protocol = pin.partition("/")
            out.append(Contender(name, "ours", team, transport=transport, buffers=buffers, algorithm=algorithm,
                                 protocol=protocol or "automatic"))
    return out


def columns_of(options):
    """Returns the name, transport, buffers and algorithm of each contender of tutti."""
    if options.over != "shm":
        pins = {pin: ("mpi", pin) for pin in options.tutti} if options.tutti else OVER_MPI
        return [(name, transport, "private", pin) for name, (transport, pin) in pins.items()]
    return [(buffers if pin == "automatic" else f"{pin} {buffers}", "shm", buffers, pin)
            for pin in options.tutti or ["automatic"] for buffers in options.buffers]


def rows_of(options):
    for collective in options.collectives:
        for kind in options.kinds if collective in REDUCTIONS else ["float"]:
            for place in options.places if collective not in ("broadcast", "barrier", "point_to_point", "window") else ["out"]:
                for mode in options.modes:
                    for bytes_ in options.sizes if collective != "barrier" else [0]:
                        yield {"collective": collective, "kind": kind, "bytes": bytes_, "in_place": place == "in"}, mode


def environment():
    cpu = {key: first("/proc/cpuinfo", key) for key in ("model name", "cpu family", "model")}
    return {"machine": f"{cpu['model name']} (family {cpu['cpu family']}, model {cpu['model']}), "
                       f"{len(os.sched_getaffinity(0))} cores",
            "system": f"Linux {platform.release()}", "command": shlex.join(sys.argv)}


def now_and_load():
    return {"date": time.strftime("%F %H:%M UTC", time.gmtime()), "load": load()}


def conduct(options, output):
    """Runs all rows for all numbers of ranks. Teams live until the number of ranks changes."""
    order = random.Random(1)
    rows = list(rows_of(options))
    progress = report.Progress(len(rows) * len(options.ranks))

    said = set()

    def say(text):
        if text not in said:
            said.add(text)
            progress.clear()
            output.write({"record": "note", "text": text})

    begin = {"record": "run", **now_and_load(), **environment()}  # written when the first team has started
    with teams.folder() as folder:
        for ranks in options.ranks:
            started = []
            try:
                for team in start_teams(options, ranks, folder, say):
                    started.append(team)
                    if begin:
                        output.write(begin)
                        begin = None
                output.write({"record": "teams", "ranks": ranks, "versions": {t.name: t.version for t in started}})
                for what, mode in rows:
                    contenders = contenders_of(options, [t for t in started if not t.killed])
                    records = Row(options, contenders, what, mode, say).run(order)
                    progress.clear()
                    output.write(*records)
                    progress.step(f"{ranks} ranks, {what['collective']}, {mode}")
            except BaseException:
                for team in started:
                    team.kill()
                raise
            for team in started:
                team.stop()
    progress.clear()
    output.write({"record": "end", **now_and_load()})


def main():
    options = arguments()
    output = report.Output(options.output)
    code = 0
    try:
        conduct(options, output)
    except KeyboardInterrupt:
        print("\ninterrupted; the results so far, if any, are in " + output.path + ".jsonl", file=sys.stderr)
        code = 130
    except (Wrong, teams.Lost) as reason:
        print(f"\nbench: {reason}", file=sys.stderr)
        code = 1
    if output.close() and not options.no_plot:
        report.plot([output.path + ".jsonl"], output.path)
    sys.exit(code)


if __name__ == "__main__":
    main()
