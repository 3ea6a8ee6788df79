#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the results of tools/test as a table: tests by area and configuration, then what was skipped and why.

usage: test_table.py BUILD

BUILD/results holds <preset>.<part>.xml (ctest --output-junit) for each part of a preset that was tested, <preset>.failed (one
sentence) if a build or ctest itself failed, and optionally `not_run`, a line for each thing that was not tried. BUILD/<preset>/tests.txt, written by
tests/CMakeLists.txt, describes a preset and lists the tests that it leaves out. The last line is `N passed, N failed, N skipped`; the exit
status is 1 if anything failed or nothing passed.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

SKIPPED = re.compile(r"\bskipped: (.*)")  # how tests report that they, or one of their cases, did not run


class Preset:
    def __init__(self, build, name):
        self.name = name
        self.passed, self.failed, self.skipped, self.partly_skipped = [], [], {}, {}
        self.description, self.left_out = "", {}
        lines = read_lines(build / name / "tests.txt")
        if lines:
            self.description = lines[0]
            self.left_out = dict(line.split(": ", 1) for line in lines[1:])
        for line in read_lines(build / "results" / f"{name}.failed"):
            self.failed.append(f"build.{name}: {line}")
        reports = sorted((build / "results").glob(f"{name}.*.xml"))
        for report in reports:
            try:
                cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
            except xml.etree.ElementTree.ParseError as error:
                self.failed.append(f"build.{name}: ctest left {report.name} incomplete ({error})")
                continue
            for case in cases:
                self.add(case)
        if not reports and not self.failed:
            self.failed.append(f"build.{name}: ctest wrote no report")

    def add(self, case):
        name, status = case.get("name"), case.get("status")
        reasons = list(dict.fromkeys(SKIPPED.findall(case.findtext("system-out") or "")))
        if status == "run":
            self.passed.append(name)
            if reasons:
                self.partly_skipped[name] = reasons
        elif case.find("skipped") is not None and "SKIP_" in (case.find("skipped").get("message") or ""):
            self.skipped[name] = "; ".join(reasons) or "the test gives no reason"
        else:
            self.failed.append(name)


def read_lines(path):
    return path.read_text().splitlines() if path.exists() else []


def area(test):
    return test.split(".")[0]


def print_columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]))


def print_reasons(title, reasons):
    """reasons: pairs of a test and the reason; tests with the same reason share a line."""
    grouped = {}
    for test, reason in reasons:
        grouped.setdefault(reason, []).append(test)
    if grouped:
        print(f"\n{title}:")
        for reason, tests in grouped.items():
            tests = list(dict.fromkeys(tests))
            print(f"  {', '.join(tests)}: {reason}")


def main():
    build = pathlib.Path(sys.argv[1])
    names = dict.fromkeys(path.name.split(".")[0] for path in sorted((build / "results").glob("*.*"), key=lambda p: p.stat().st_mtime))
    presets = [Preset(build, name) for name in names]

    areas = sorted({area(test) for preset in presets for test in [*preset.passed, *preset.failed, *preset.skipped]})
    rows = [["area"] + [preset.name for preset in presets] + ["failed", "skipped"]]
    for name in areas + ["all"]:
        def count(tests):
            return sum(name in (area(test), "all") for test in tests)
        ran = [count(preset.passed) + count(preset.failed) for preset in presets]
        failed, skipped = sum(count(p.failed) for p in presets), sum(count(p.skipped) for p in presets)
        rows.append([name] + [str(n or "-") for n in [*ran, failed, skipped]])
    print("Tests that ran, by area and configuration:\n")
    print_columns(rows)
    print()
    for preset in presets:
        print(f"  {preset.name}: {preset.description}")

    ran = {test for preset in presets for test in [*preset.passed, *preset.failed]}
    print_reasons("Skipped", [(test, reason) for p in presets for test, reason in p.skipped.items()])
    print_reasons("Skipped in part", [(test, "; ".join(reasons) + f" ({p.name})")
                                      for p in presets for test, reasons in p.partly_skipped.items()])
    print_reasons("Built in none of these configurations", [(test, reason) for p in presets
                                                            for test, reason in p.left_out.items() if test not in ran])
    not_run = read_lines(build / "results" / "not_run")
    if not_run:
        print("\nNot run:\n  " + "\n  ".join(not_run))
    failures = [f"{test} ({preset.name})" for preset in presets for test in preset.failed]
    if failures:
        print("\nFAILED:\n  " + "\n  ".join(failures))

    passed, skipped = sum(len(p.passed) for p in presets), sum(len(p.skipped) for p in presets)
    print(f"\n{passed} passed, {len(failures)} failed, {skipped} skipped")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
