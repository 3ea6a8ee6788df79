#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints tables and draws plots of the JSON lines that bench/run.py writes: report.py file.jsonl... [--ranking] [--output name]"""

import argparse
import json
import os
import sys
import time


def bus_factor(collective, ranks):
    """Returns the bytes that each link must carry per byte of the size, if all links are used (nccl-tests, PERFORMANCE.md)."""
    if collective in ("all_reduce", "started"):
        return 2 * (ranks - 1) / ranks
    if collective == "point_to_point":
        return 2
    return 1 if collective in ("broadcast", "reduce", "window") else (ranks - 1) / ranks


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B" if size else "-"


def time_text(us):
    return f"{us:.3f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def title(record):
    kind = "" if record["kind"] == "float" else f", {record['kind']}"
    return f"{record['collective']}{kind}, {record['ranks']} ranks, {record['place']} of place".replace("in of", "in") + \
        f", {record['mode']}"


class Table:
    """Turns records into Markdown, with a new table when the title or the contenders change."""

    def __init__(self):
        self.heading = None

    def row(self, records):
        ours = [r for r in records if r["role"] == "ours"]
        best = next((r for r in records if r["best_peer"]), None)
        limit = next((r for r in records if r["role"] == "limit"), None)
        heading, rule = ["size", "best peer", "us", "p99"], ["---:", "---", "---:", "---:"]
        for r in ours:
            heading += [r["contender"] + " us", "p99", "ratio", "min..max"]
            rule += ["---:", "---:", "---:", ":---:"]
        heading += ["runs", "busbw GB/s", "memcpy us", ""]
        rule += ["---", "---:", "---:", "---"]
        cells = [size_text(records[0]["bytes"])]
        cells += [best["contender"], time_text(best["us"]), time_text(best["us_p99"])] if best else ["none", "", ""]
        for r in ours:
            cells += [time_text(r["us"]), time_text(r["us_p99"])]
            cells += [f"**{r['ratio']:.2f}**", f"{r['ratio_min']:.2f}..{r['ratio_max']:.2f}"] if best else ["", ""]
        marks = "!" if records[0]["disturbed"] else "~" if any(r.get("spread") for r in ours) else ""
        cells += [ours[0]["runs"], f"{ours[0]['busbw']:.2f}", time_text(limit["us"]) if limit else "", marks]
        lines = []
        head = (title(records[0]), heading)
        if head != self.heading:
            self.heading = head
            lines += ["", f"### {title(records[0])}", "", line(heading), line(rule)]
        return lines + [line(cells)]

    def lines(self, records):
        kind = records[0]["record"]
        if kind == "time":
            return self.row(records)
        self.heading = None
        r = records[0]
        if kind == "run":
            return [f"{r['date']}; {r['machine']}; {r['system']}; load {r['load']}", "", f"    {r['command']}"]
        if kind == "teams":
            return ["", f"{r['ranks']} ranks: " + ", ".join(f"{k} ({v})" for k, v in r["versions"].items())]
        return ["", r["text"] if kind == "note" else f"{r['date']}; load at the end {r['load']}"]


def line(cells):
    return "| " + " | ".join(cells) + " |"


class Output:
    """Writes results as JSON lines at once, so that an interrupted run keeps them, and as a table. The first ones replace earlier files."""

    def __init__(self, path):
        self.path = path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self.json = self.text = None
        self.table = Table()

    def write(self, *records):
        if not records:
            return
        if self.json is None:
            self.json, self.text = open(self.path + ".jsonl", "w"), open(self.path + ".md", "w")
        for r in records:
            self.json.write(json.dumps(r) + "\n")
        self.json.flush()
        for text in self.table.lines(records):
            print(text, flush=True)
            self.text.write(text + "\n")
        self.text.flush()

    def close(self):
        """Returns whether there are results."""
        if self.json is None:
            return False
        self.json.close()
        self.text.close()
        return True


class Progress:
    """A progress bar on a terminal. It is drawn only between rows, so that it disturbs no turn."""

    def __init__(self, rows):
        self.rows, self.done, self.begin, self.shown = rows, 0, time.monotonic(), sys.stderr.isatty()

    def step(self, what):
        self.done += 1
        if not self.shown:
            return
        left = (time.monotonic() - self.begin) / self.done * (self.rows - self.done)
        full = 30 * self.done // self.rows
        bar = f"[{'=' * full}{' ' * (30 - full)}] {self.done}/{self.rows}, {left:.0f} s left: {what}"
        print(f"\r{bar}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class NotResults(Exception):
    """A file that bench/run.py has not written."""


def read(files):
    """Groups the records by rows, in the order of the files."""
    rows = {}
    for name in files:
        number = 0
        with open(name) as lines:
            try:
                for text in lines:
                    number += 1
                    r = json.loads(text)
                    key = (name, title(r), r["bytes"]) if r["record"] == "time" else (name, len(rows))
                    rows.setdefault(key, []).append(r)
            except (ValueError, KeyError, TypeError):
                raise NotResults(f"{name}, line {max(number, 1)} is no result of bench/run.py; name its .jsonl files") from None
    return list(rows.values())


def ranking(files):
    """Returns the lines of one table with all rows, the smallest ratio to the best peer first, each with the time of memcpy."""
    rows = []
    for records in read(files):
        best = next((r for r in records if r.get("best_peer")), None)
        limit = next((r for r in records if r.get("role") == "limit"), None)
        for r in records if best else []:
            if r["role"] == "ours":
                rows.append((r["ratio"], [
                    f"**{r['ratio']:.2f}**", f"{r['ratio_min']:.2f}..{r['ratio_max']:.2f}",
                    "!" if r["disturbed"] else "~" if r.get("spread") else "", title(r), size_text(r["bytes"]), r["contender"],
                    r["runs"], time_text(r["us"]), time_text(best["us"]), best["contender"],
                    time_text(limit["us"]) if limit else ""]))
    rows.sort(key=lambda row: row[0])
    heading = ["ratio", "min..max", "", "row", "size", "buffers", "runs", "us", "best peer's us", "best peer", "memcpy us"]
    slower = sum(ratio < 1 for ratio, _ in rows)
    return [f"{slower} of {len(rows)} rows are slower than the best peer.", "", line(heading), line(["---"] * len(heading))] + \
        [line(cells) for _, cells in rows]


def plot(files, path):
    """Draws a column for each table of several sizes: the times of all contenders above, the ratios to the best peer below."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("bench: no plot was drawn: matplotlib is not installed (Debian: python3-matplotlib)", file=sys.stderr)
        return
    panels = {}
    for records in read(files):
        if records[0]["record"] == "time" and records[0]["bytes"]:
            panels.setdefault(title(records[0]), []).append(records)
    panels = {k: v for k, v in panels.items() if len(v) > 1}
    if not panels:
        return
    columns = min(4, len(panels))
    bands = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(2 * bands, columns, figsize=(4.6 * columns, 6 * bands), squeeze=False, sharex=True,
                                   height_ratios=[3, 2] * bands)
    for a in axes.flat:
        a.set_visible(False)
    names = list(dict.fromkeys(r["contender"] for rows in panels.values() for records in rows for r in records))
    for i, (name, rows) in enumerate(panels.items()):
        times, ratios = axes[2 * (i // columns)][i % columns], axes[2 * (i // columns) + 1][i % columns]
        for a in (times, ratios):
            a.set_visible(True)
            a.set_xscale("log", base=2)
            a.grid(alpha=0.3)
            a.tick_params(labelbottom=True)
        times.set_yscale("log")
        times.set_title(name, fontsize=10)
        ratios.set_yscale("log", base=2)
        ratios.axhline(1, color="black", linewidth=0.8)
        ratios.xaxis.set_major_formatter(lambda x, _: size_text(int(x)))
        times.xaxis.set_major_formatter(lambda x, _: size_text(int(x)))
        ratios.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        for contender in names:
            mine = [r for records in rows for r in records if r["contender"] == contender]
            if not mine:
                continue
            x, role, color = [r["bytes"] for r in mine], mine[0]["role"], f"C{names.index(contender) % 10}"
            style = {"ours": "-", "peer": "--", "limit": ":"}[role]
            label = f"tutti, {contender}" if role == "ours" else contender
            times.plot(x, [r["us"] for r in mine], style, color=color, marker="." if role == "ours" else None, label=label)
            if role == "ours" and "ratio" in mine[0]:
                ratios.plot(x, [r["ratio"] for r in mine], style, color=color, marker=".")
                ratios.fill_between(x, [r["ratio_min"] for r in mine], [r["ratio_max"] for r in mine], color=color, alpha=0.2,
                                    linewidth=0)
        if i % columns == 0:
            times.set_ylabel("us, slowest rank")
            ratios.set_ylabel("best peer's time / ours")
        if i == 0:
            times.legend(fontsize=7)
    figure.tight_layout()
    for ending in (".svg", ".png"):
        figure.savefig(path + ending, dpi=110)
    pyplot.close(figure)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("files", nargs="+")
    p.add_argument("--ranking", action="store_true", help="print one table, the smallest ratio first")
    p.add_argument("--output", help="also write plots to this name with .svg and .png appended")
    options = p.parse_args()
    try:
        if options.ranking:
            print("\n".join(ranking(options.files)))
        else:
            table = Table()
            for records in read(options.files):
                print("\n".join(table.lines(records)))
        if options.output:
            plot(options.files, options.output)
    except NotResults as e:
        sys.exit(f"report.py: {e}")
    except OSError as e:
        sys.exit(f"report.py: {e.filename or 'the output'}: {e.strerror}")


if __name__ == "__main__":
    main()
