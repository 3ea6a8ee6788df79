#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The presets that `tools/test all` runs build every folder of tests/ between them, and name no other. usage: presets.py SOURCES"""
import json
import pathlib
import re
import shlex
import sys

root = pathlib.Path(sys.argv[1])
steps = re.findall(r"^ *step (.*)$", (root / "tools/test").read_text(), re.MULTILINE)
run = {part.partition(":")[0] for part in shlex.split(steps[-1])}
presets = json.loads((root / "CMakePresets.json").read_text())["configurePresets"]
named = {p["name"]: p["cacheVariables"]["TUTTI_TEST_AREAS"].split(";") for p in presets if "TUTTI_TEST_AREAS" in p.get("cacheVariables", {})}
tests = root / "tests"
# A folder that git has left behind, because it contains ignored files, has none.
sources = [*tests.glob("*/CMakeLists.txt"), *tests.glob("*/**/*.cpp")]
folders = {source.relative_to(tests).parts[0] for source in sources} - {"support"}
built = {area for name in run for area in named[name]}

wrong = [f"{name} names tests/{area}, which does not exist" for name in named for area in named[name] if area not in folders]
wrong += [f"no preset of tools/test all builds tests/{area}; add it to TUTTI_TEST_AREAS in CMakePresets.json" for area in folders - built]
print("\n".join(wrong) or f"{', '.join(sorted(run))} build {len(folders)} folders of tests")
sys.exit(bool(wrong))
