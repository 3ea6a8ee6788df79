# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The project's Markdown pages: their headings, links and code blocks."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\s*$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def all_pages():
    """Every Markdown file of the project, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        return sorted(pathlib.Path(name) for name in set(listed) if name and (ROOT / name).exists())
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return sorted(p.relative_to(ROOT) for p in ROOT.rglob("*.md") if "build" not in p.relative_to(ROOT).parts)


def guides():
    """The pages whose C++ must be compiled code."""
    return [pathlib.Path("README.md")] + sorted(p for p in all_pages() if p.parent == pathlib.Path("docs"))


def listed_guides():
    """(page, title) of each guide in the table of README.md."""
    rows = re.findall(r"^\|([^|]*\]\(docs/[^|]*)\|", (ROOT / "README.md").read_text(), re.M)
    return [(page, title) for row in rows for title, page in re.findall(r"\[([^\]]*)\]\(([^()]*)\)", row)]


def text_and_blocks(page):
    """Splits a page into (line number, line) of text and (line number, language, lines) of code blocks."""
    text, blocks, language = [], [], None
    for number, line in enumerate((ROOT / page).read_text().split("\n"), 1):
        fence = FENCE.match(line)
        if language is not None and line.startswith("```"):
            language = None
        elif fence:
            language = fence.group(1)
            blocks.append((number + 1, language, []))
        elif language is not None:
            blocks[-1][2].append(line)
        else:
            text.append((number, line))
    return text, blocks


def anchor_of(heading):
    """The anchor that GitHub gives to a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(page):
    out = []
    for _, line in text_and_blocks(page)[0]:
        if re.match(r"^#{1,6} ", line):
            name = anchor_of(line.lstrip("#"))
            repeated = sum(1 for known in out if re.fullmatch(re.escape(name) + r"(-\d+)?", known))
            out.append(f"{name}-{repeated}" if name in out else name)
    return out


def links(page):
    """(line number, target) of every link and picture."""
    for number, line in text_and_blocks(page)[0]:
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            yield number, target
