#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns the comments of headers into Doxygen's; `comments.py HEADER` prints one.

A block of // directly before a declaration becomes its documentation, one behind it the brief one of a member; a block that
stands alone, and the one at the head, belong to the file. Lines indented by two more spaces are code. What is within a function
body or a namespace `detail` stays as it is."""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"^( *)//(?!/)(?: (.*)|)$")
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*.*?\*/|[{};]|\n|[^{};"\'/\n]+|.', re.S)
SCOPE = re.compile(r"(?:^|[\s>])(?:class|struct|union|enum|namespace)\b(?!.*\breturn\b)", re.S)


def public_headers():
    """The headers of the reference, relative to the root: the INPUT of the Doxyfile."""
    doxyfile = (ROOT / "tools/site/Doxyfile").read_text()
    listed = re.search(r"^INPUT *= *((?:.*\\\n)*.*)$", doxyfile, re.M).group(1).replace("\\\n", " ").split()
    return [pathlib.Path(name) for name in listed]


def kind_of(statement):
    """What the brace behind this text opens."""
    text = re.sub(r"^(?:\s*(?:public|private|protected)\s*:)+|TUTTI_NODISCARD\(.*?\)|\[\[.*?\]\]", "", statement)
    if re.search(r"\bnamespace\b", text):
        return "internal" if re.search(r"\bnamespace\s+detail\b", text) else "scope"
    # A class in the parameters of a template is none, and neither is a function that returns a struct.
    plain, depth = "", 0
    for part in re.split(r"([<>()])", text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(part, 0)
        plain += part if depth == 0 or part in "()" else ""
    return "scope" if re.search(r"\b(?:class|struct|union|enum)\b", plain) and "(" not in plain else "body"


def scopes(text):
    """For each line, the kinds of what is open where it begins."""
    out, stack, statement = [()], [], ""
    for token in TOKEN.findall(text):
        if token == "\n":
            out.append(tuple(stack))
            statement += " "
        elif token == "{":
            stack.append(kind_of(statement))
            statement = ""
        elif token == "}":
            if stack:
                stack.pop()
            statement = ""
        elif token == ";":
            statement = ""
        elif not token.startswith(("//", "/*")):
            statement += token
    return out


def escaped(text):
    return re.sub(r"([\\@<>#&])", r"\\\1", text)


ROW = re.compile(r"^(\S(?:.*?\S)?) {2,}(\S.*)$")


def as_doxygen(texts, indent, opening=()):
    """The lines of a block. `Throws   error: ...`, with more lines below its text, or `Throws error: ...` is a section."""
    out = list(opening)
    code, column = False, 0
    for text in texts:
        below = column > 0 and text.startswith(" " * column)
        is_code = not below and (text.startswith("  ") or (code and not text))
        if is_code != code:
            out.append("@code{.cpp}" if is_code else "@endcode")
        code = is_code
        row = None if below or code else ROW.match(text) or re.match(r"^(Throws?|Order of combination:|Cost:) (.*)$", text)
        if row:
            column = row.start(2) if row.re is ROW else 0
            out += [f"@par {escaped(row.group(1)).rstrip(':')}", escaped(row.group(2))]
        elif code:
            out.append(text[2:])
        else:
            column = column if below else 0
            out.append(escaped(text.strip()))
    if code:
        out.append("@endcode")
    return [f"{indent}/// {line}".rstrip() for line in out]


@functools.cache
def blocks(text):
    """(first line, line behind the last, indentation, texts) of each block of comment lines in a scope that is public."""
    lines, where = text.split("\n"), scopes(text)
    out, i = [], 0
    while i < len(lines):
        first = COMMENT.match(lines[i])
        if not first or any(kind != "scope" for kind in where[i]):
            i += 1
            continue
        begin = i
        while i < len(lines) and (line := COMMENT.match(lines[i])) and line.group(1) == first.group(1):
            i += 1
        out.append((begin, i, first.group(1), [(COMMENT.match(line).group(2) or "") for line in lines[begin:i]]))
    return out


def documents(lines, behind):
    """Whether what stands behind a block of comments is a declaration."""
    return behind < len(lines) and re.match(r"^ *[\w\[~:]", lines[behind]) is not None


def public_part(text):
    """Leaves out what Doxygen should not see: private members, operators that are friends, and specialisations in std."""
    text = re.sub(r"^template <>\nstruct std::numeric_limits.*?\};\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^ .*\bfriend\b.*\boperator\W.*[;}]\n", "", text, flags=re.M)
    lines, where = text.split("\n"), scopes(text) + [()]
    out, private = [], None
    for n, line in enumerate(lines):
        if line.strip() == "private:":
            private = private or len(where[n])
        elif private == len(where[n]) and (len(where[n + 1]) < private or line.strip() in ("public:", "protected:")):
            private = None
        if private is None:
            out.append(line)
    return "\n".join(out)


def filtered(text):
    text = public_part(text)
    lines, where = text.split("\n"), scopes(text)
    out, i = [], 0
    for begin, end, indent, texts in blocks(text):
        out += [trailing(line, where[n]) for n, line in enumerate(lines[i:begin], i)]
        i = end
        if begin == 0:
            out += as_doxygen(texts[1:], indent, ["@file"])
        elif documents(lines, end):
            out += as_doxygen(texts, indent)
        elif indent == "" and not texts[0].startswith("--"):
            out += as_doxygen(texts, indent, ["@file"])
        else:
            out += lines[begin:end]
    return "\n".join(out + [trailing(line, where[n]) for n, line in enumerate(lines[i:], i)])


def trailing(line, where):
    """A comment behind a member: `int rank;  // who throws`."""
    member = re.match(r"^( +[\w:<>][^/\"]*[,;}\w])  +// (.*)$", line)
    if not member or not where or any(kind != "scope" for kind in where) or "namespace" in line:
        return line
    return f"{member.group(1)}  ///< {escaped(member.group(2))}"


DECLARED = re.compile(
    r"^(?!using namespace|namespace|friend|template|extern|static_assert|#)"
    r"(?:\[\[[^\]]*\]\] *|TUTTI_\w+ *|inline +|constexpr +|static +|explicit +)*"
    r"(?:(?:class|struct|union|concept|using|enum(?: class)?) +(?:TUTTI_NODISCARD\(.*\) +|\[\[.*\]\] +)?(\w+)|(?:[\w:<>,&* ]+?[ &*])(\w+)(?:\(|\{| = ))")


def names_without_comment(header):
    """What a header declares in tutti itself, of which no declaration has a comment before it."""
    text = (ROOT / header).read_text()
    lines, where = text.split("\n"), scopes(text)
    commented = {end for _, end, _, _ in blocks(text)}
    known, declared = set(), []
    for i, line in enumerate(lines):
        if where[i] != ("scope",) or not line or line[0] in " /#}" or line.startswith("  "):
            continue
        found = DECLARED.match(line)
        if not found:
            continue
        first = i
        while first > 0 and re.match(r"^(template|  requires|    +\S|TUTTI_CALLS_ANY|\[\[)", lines[first - 1]) and first not in commented:
            first -= 1
        name = found.group(1) or found.group(2)
        declared.append(name)
        if first in commented or re.search(r"[;{}]  //", line):
            known.add(name)
    return sorted(set(declared) - known)


if __name__ == "__main__":
    sys.stdout.write(filtered(pathlib.Path(sys.argv[1]).read_text()))
