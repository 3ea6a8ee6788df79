#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints tables and draws a plot of the JSON lines that bench/simgrid.cpp writes: simgrid.py file.jsonl --output name"""

import argparse
import json
import sys

from report import line, size_text

PUBLISHED = {"ring": 180e3, "double_binary_tree": 1e3}  # us of latency on 24,756 ranks


def tables(records):
    measured = [r for r in records if "us" in r]
    for algorithm in dict.fromkeys(r["algorithm"] for r in measured):
        print(f"\n### {algorithm}\n")
        print(line(["ranks", "size", "us", "predicted us", "us / predicted"]))
        print(line(["---:"] * 5))
        for r in measured:
            if r["algorithm"] == algorithm:
                print(line([f"{r['ranks']:,}", size_text(r["bytes"]), f"{r['us']:,.1f}", f"{r['predicted_us']:,.1f}",
                            f"{r['us'] / r['predicted_us']:.2f}"]))
    print()
    for r in records:
        if "us" not in r:
            print(f"- {r['algorithm']} of {size_text(r['bytes'])} on {r['ranks']:,} ranks is predicted to take "
                  f"{r['predicted_us']:,.0f} us.")


def plot(records, path):
    """Draws 8 bytes against ranks, with published times, on the left; and all sizes on the largest machine on the right."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("bench: no plot was drawn: matplotlib is not installed (Debian: python3-matplotlib)")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6))
    most = max(r["ranks"] for r in records if "us" in r)
    for i, algorithm in enumerate(dict.fromkeys(r["algorithm"] for r in records)):
        mine = [r for r in records if r["algorithm"] == algorithm]
        for axes, x, shown in ((left, "ranks", [r for r in mine if r["bytes"] == 8]),
                               (right, "bytes", [r for r in mine if r["ranks"] == most])):
            axes.plot([r[x] for r in shown], [r["predicted_us"] for r in shown], "--", color=f"C{i}",
                      label=f"{algorithm}, predicted")
            shown = [r for r in shown if "us" in r]
            axes.plot([r[x] for r in shown], [r["us"] for r in shown], "o", color=f"C{i}", label=f"{algorithm}, in SimGrid")
        if algorithm in PUBLISHED:
            left.axhline(PUBLISHED[algorithm], color=f"C{i}", linewidth=0.8, linestyle=":")
            left.annotate(f"published for {'ring' if algorithm == 'ring' else 'tree'}, 24,756 ranks",
                          (16, PUBLISHED[algorithm]), textcoords="offset points", xytext=(0, 3), fontsize=8)
    left.set_title("all_reduce of 8 B", fontsize=10)
    left.set_xlabel("ranks")
    right.set_title(f"all_reduce on {most:,} ranks", fontsize=10)
    right.set_xlabel("size")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylabel("us, slowest rank")
        axes.grid(alpha=0.3)
    left.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    right.xaxis.set_major_formatter(lambda x, _: size_text(int(x)))
    right.legend(fontsize=7)
    figure.tight_layout()
    for ending in (".svg", ".png"):
        figure.savefig(path + ending, dpi=110)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file")
    p.add_argument("--output", help="also write plots to this name with .svg and .png appended")
    options = p.parse_args()
    with open(options.file) as lines:
        records = [json.loads(text) for text in lines]
    tables(records)
    if options.output:
        plot(records, options.output)


if __name__ == "__main__":
    main()
