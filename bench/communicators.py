#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What libtutti-mpi.so adds to a communicator that a program makes, uses for some calls and frees, beside the MPI alone.

Compiles communicators.cpp with the wrapper of each MPI. The contenders take turns, in random order, and each round gives a ratio.
"""
import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

contenders = {"MPI alone": None, "default": {}, "at once": {"TUTTI_MPI_FIRST_CALLS": "0"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", required=True, help="the folder with <mpi>/libtutti-mpi.so")
    parser.add_argument("--mpis", default="openmpi,mpich")
    parser.add_argument("--calls", default="0,1,10,300", help="MPI_Allreduce on each communicator")
    parser.add_argument("-n", type=int, default=2, help="ranks")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=200, help="communicators in a turn")
    options = parser.parse_args()
    print("| MPI | calls on each | MPI alone (us) | default (us) | ratio | min..max | taken over at once (us) | ratio | min..max |")
    print("|---|---:|---:|---:|---:|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for mpi in options.mpis.split(","):
            if not shutil.which(f"mpicxx.{mpi}"):
                continue
            program = f"{folder}/{mpi}"
            source = pathlib.Path(__file__).with_name("communicators.cpp")
            subprocess.run([f"mpicxx.{mpi}", "-std=c++20", "-O2", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", source, "-o", program],
                           check=True)
            library = pathlib.Path(options.libraries, mpi, "libtutti-mpi.so").resolve(strict=True)
            for calls in options.calls.split(","):
                row(mpi, program, library, calls, options)


def row(mpi, program, library, calls, options):
    times = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name in random.sample(list(contenders), len(contenders)):
            times[name].append(turn(mpi, program, library, calls, contenders[name], options))
    cells = [mpi, calls, f"{statistics.median(times['MPI alone']):.1f}"]
    for name in ("default", "at once"):
        ratios = [ours / alone for ours, alone in zip(times[name], times["MPI alone"])]
        cells += [f"{statistics.median(times[name]):.1f}", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}..{max(ratios):.2f}"]
    print("| " + " | ".join(cells) + " |", flush=True)


def turn(mpi, program, library, calls, settings, options):
    command = [f"mpirun.{mpi}", "-n", str(options.n)]
    if settings is not None:
        command += ["env", f"LD_PRELOAD={library}"] + [f"{name}={value}" for name, value in settings.items()]
    run = subprocess.run(command + [program, calls, str(options.count)], env=os.environ, capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {run.stdout}{run.stderr}")
    return float(run.stdout.split()[-1])


if __name__ == "__main__":
    main()
