#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the documentation without building it: links and anchors of all Markdown pages, the C++ of README.md and docs/, the
length of README.md, that every guide, example and environment variable is in the table of its kind, and that every public entity has a
documentation comment. Needs neither a network nor a package."""
import pathlib
import re
import sys

import comments
import pages

# Sources that tests compile, or nvcc does as the tests cuda.*.
COMPILED = ["examples/*.cpp", "examples/*.cu", "examples/*/*.cpp", "tests/docs/*.cpp", "tests/mpi/docs.cpp", "tests/cuda/docs.cu"]


def dead_links():
    for page in pages.all_pages():
        for number, target in pages.links(page):
            if target.startswith(("https://", "http://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            file = (pages.ROOT / page).parent / path if path else pages.ROOT / page
            if not file.exists():
                yield f"{page}:{number}: {target}: there is no such file"
            elif anchor and (file.suffix != ".md" or anchor not in pages.anchors(file.resolve().relative_to(pages.ROOT))):
                yield f"{page}:{number}: {target}: {path or page} has no heading with this anchor"


def dedented(lines):
    """The lines without their common indentation, and without empty lines at either end."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    width = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[width:].rstrip() for line in lines]


def occurs(block, source):
    for begin in range(len(source) - len(block) + 1):
        if source[begin].strip() == block[0].strip() and dedented(source[begin : begin + len(block)]) == block:
            return True
    return False


def uncompiled_blocks():
    sources = [file.read_text().split("\n") for pattern in COMPILED for file in sorted(pages.ROOT.glob(pattern))]
    found = 0
    for page in pages.guides():
        for number, language, lines in pages.text_and_blocks(page)[1]:
            if language != "cpp":
                continue
            found += 1
            if not any(occurs(dedented(lines), source) for source in sources):
                yield f"{page}:{number}: this code is in no source that is compiled; see tests/docs"
    if found < 10:
        yield f"only {found} blocks of C++ were found"


def too_long():
    lines = len((pages.ROOT / "README.md").read_text().split("\n")) - 1
    if lines > 150:
        yield f"README.md has {lines} lines; at most 150"


def unlisted():
    listed = {pathlib.Path(page) for page, _ in pages.listed_guides()}
    for page in pages.guides():
        if page.name != "README.md" and page not in listed:
            yield f"{page}: the table of guides in README.md lacks this page"
    examples = (pages.ROOT / "examples/README.md").read_text()
    for file in sorted([*pages.ROOT.glob("examples/*.c*"), *pages.ROOT.glob("examples/*/*.cpp")]):
        if file.parent.name in ("examples", file.stem) and f"[{file.stem}](" not in examples:
            yield f"{file.relative_to(pages.ROOT)}: the table of examples/README.md lacks this example"


def undocumented():
    for header in comments.public_headers():
        for name in comments.names_without_comment(header):
            yield f"{header}: tutti::{name} has no documentation comment"


def undescribed_variables():
    patterns = [f"{folder}/**/*.{kind}" for folder in ("include", "tools") for kind in ("hpp", "cuh", "cpp")]
    sources = [file for pattern in patterns for file in pages.ROOT.glob(pattern)]
    variables = {name for file in sources for name in re.findall(r'"(TUTTI_[A-Z_]+)"', file.read_text())}
    described = set(re.findall(r"`(TUTTI_[A-Z_]+)`", (pages.ROOT / "docs/tuning.md").read_text()))
    for name in sorted(variables - described):
        yield f"docs/tuning.md: the table of environment variables lacks {name}"


def main():
    checks = (dead_links, uncompiled_blocks, too_long, unlisted, undocumented, undescribed_variables)
    problems = [p for check in checks for p in check()]
    for problem in problems:
        print(problem)
    print(f"{len(pages.all_pages())} pages: " + (f"{len(problems)} problems" if problems else "no problems"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
