#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the site: guides and pages that they link to, by Python-Markdown, and the reference, by Doxygen, under build/docs. Fails
on any warning, and on links and anchors that lead nowhere. Run it by tools/docs."""
import html
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import markdown

import comments
import pages

SITE = pages.ROOT / "build/docs"
ASSETS = pages.ROOT / "tools/site"
NAVIGATION = [("README.md", "tutti"), *pages.listed_guides()]


def build_reference():
    """Doxygen's HTML of the headers with its kind of comments; returns the page of each header."""
    source = pages.ROOT / "build/reference"
    shutil.rmtree(source, ignore_errors=True)
    for header in comments.public_headers():
        (source / header).parent.mkdir(parents=True, exist_ok=True)
        (source / header).write_text(comments.filtered((pages.ROOT / header).read_text()))
    subprocess.run(["doxygen", str(ASSETS / "Doxyfile")], cwd=source, check=True)
    places = {}
    for compound in xml.etree.ElementTree.parse(SITE / "reference.tag").iter("compound"):
        if compound.get("kind") == "file":
            header = pathlib.Path(compound.findtext("path") + compound.findtext("name"))
            places[header.relative_to(source)] = "reference/" + compound.findtext("filename").removesuffix(".html") + ".html"
    return places


def place_of(file, headers):
    """Where a file of the project is in the site."""
    if file in headers:
        return headers[file]
    if file == pathlib.Path("README.md"):
        return "index.html"
    return str(file.with_suffix(".html")) if file.suffix == ".md" else str(file) + ("" if file.suffix in (".svg", ".png") else ".html")


def relative(target, page):
    """The address of a place of the site, seen from another."""
    return "../" * page.count("/") + target


def navigation(place):
    links = "\n".join(
        f'<a href="{relative(place_of(pathlib.Path(file), {}), place)}">{name}</a>' for file, name in NAVIGATION
    )
    return links + f'\n<a href="{relative("reference/namespacetutti.html", place)}">Reference</a>'


def frame_reference():
    """Puts the navigation of the site beside Doxygen's pages."""
    for file in (SITE / "reference").glob("*.html"):
        place = f"reference/{file.name}"
        text = file.read_text()
        text = text.replace("</head>", f'<link rel="stylesheet" href="{relative("style.css", place)}">\n</head>', 1)
        text = text.replace("<body>", f"<body>\n<nav>\n{navigation(place)}\n</nav>\n<main>", 1)
        file.write_text(text.replace("</body>", "</main>\n</body>", 1))


def write(place, title, body):
    text = (ASSETS / "page.html").read_text()
    for key, value in (("TITLE", html.escape(title)), ("STYLE", relative("style.css", place)), ("NAVIGATION", navigation(place)), ("BODY", body)):
        text = text.replace(f"@{key}@", value)
    (SITE / place).parent.mkdir(parents=True, exist_ok=True)
    (SITE / place).write_text(text)


def slug(text, _separator):
    return pages.anchor_of(text)


def convert(page, headers):
    """Writes a Markdown page; returns the files that it links to."""
    place, wanted = place_of(page, headers), []

    def moved(match):
        target = match.group(2)
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, hash_sign, anchor = target.partition("#")
        file = (pages.ROOT / page.parent / path).resolve().relative_to(pages.ROOT)
        wanted.append(file)
        return f'{match.group(1)}="{relative(place_of(file, headers), place)}{hash_sign}{anchor}"'

    text = (pages.ROOT / page).read_text()
    body = markdown.markdown(
        text,
        extensions=["tables", "fenced_code", "toc", "sane_lists", "codehilite"],
        extension_configs={"toc": {"slugify": slug}, "codehilite": {"guess_lang": False, "css_class": "code"}},
    )
    write(place, re.search(r"^# (.*)$", text, re.M).group(1), re.sub(r'\b(href|src)="([^"]*)"', moved, body))
    return wanted


def show(file, headers):
    """Writes the page of a source file or a folder, or copies a picture."""
    place, path = place_of(file, headers), pages.ROOT / file
    if path.suffix in (".svg", ".png"):
        (SITE / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, SITE / place)
    elif path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith((".", "__")))
        write(place, str(file), f"<h1>{file}</h1><ul>" + "".join(f"<li>{html.escape(n)}</li>" for n in names) + "</ul>")
    else:
        code = markdown.markdown(
            f"~~~{'cpp' if path.suffix in ('.cpp', '.hpp', '.cu', '.cuh') else 'text'}\n{path.read_text()}\n~~~\n",
            extensions=["fenced_code", "codehilite"],
            extension_configs={"codehilite": {"guess_lang": False, "css_class": "code"}},
        )
        write(place, str(file), f"<h1>{file}</h1>\n{code}")


class Page(html.parser.HTMLParser):
    """The links and anchors of a page of HTML."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append(value)
            elif key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value)


def dead_links():
    known = {file: Page(file.read_text()) for file in SITE.rglob("*.html")}
    for file, page in known.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            if not target.exists():
                yield f"{file.relative_to(SITE)}: {link}: there is no such page"
            elif anchor and target in known and anchor not in known[target].anchors:
                yield f"{file.relative_to(SITE)}: {link}: there is no such anchor"


def main():
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.mkdir(parents=True)
    headers = build_reference()
    missing = set(comments.public_headers()) - set(headers)
    if missing:
        sys.exit(f"not in the reference: {', '.join(map(str, sorted(missing)))}")
    frame_reference()
    shutil.copy(ASSETS / "style.css", SITE)
    to_do, done = [pathlib.Path(file) for file, _ in NAVIGATION], set()
    while to_do:
        file = to_do.pop()
        if file in done:
            continue
        done.add(file)
        if file.suffix == ".md":
            to_do += convert(file, headers)
        elif file not in headers:
            show(file, headers)
    dead = sorted(set(dead_links()))
    for problem in dead:
        print(problem)
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(pages.ROOT)}, {len(dead)} dead links")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
