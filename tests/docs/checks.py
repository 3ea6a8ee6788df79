#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checks of the documentation find what is wrong in a small tree, and comments become Doxygen's."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/site"))

import check
import comments
import pages

HEADER = """// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Purpose of the header.
#pragma once

namespace tutti {
namespace detail {

// internal
struct hidden {};

}  // namespace detail

// Adds <two> numbers.
// Each rank passes  a number, and
//                   another
// Throws            error: none
//
//   add(1, 2);   // three
template <class T>
T add(T a, T b) {
  // within a body
  return a + b;
}

struct pair {
  int first;  // the first
  int second;
};

// Three template lines.
template <class T,
          class U>
  requires true
void documented(T, U);

}  // namespace tutti
"""

EXPECTED = """/// @file
/// Purpose of the header.
#pragma once

namespace tutti {
namespace detail {

// internal
struct hidden {};

}  // namespace detail

/// Adds \\<two\\> numbers.
/// @par Each rank passes
/// a number, and
/// another
/// @par Throws
/// error: none
///
/// @code{.cpp}
/// add(1, 2);   // three
/// @endcode
template <class T>
T add(T a, T b) {
  // within a body
  return a + b;
}

struct pair {
  int first;  ///< the first
  int second;
};

/// Three template lines.
template <class T,
          class U>
  requires true
void documented(T, U);

}  // namespace tutti
"""


def expect(found, wanted):
    if found != wanted:
        sys.exit(f"found:\n{found}\nwanted:\n{wanted}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pages.ROOT = comments.ROOT = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "tests/docs").mkdir(parents=True)
        (root / "tests/docs/code.cpp").write_text("void f() {\n  int a = 1;\n\n  use(a);\n}\n")
        good = "# Title\n\n## A heading, `of` code\n\n[here](#a-heading-of-code) [there](docs/guide.md#title)\n"
        (root / "README.md").write_text(good)
        (root / "docs/guide.md").write_text("# Title\n\n```cpp\nint a = 1;\n\nuse(a);\n```\n" + 9 * "```cpp\nuse(a);\n```\n")
        expect(list(check.dead_links()), [])
        expect(list(check.uncompiled_blocks()), [])
        expect(list(check.too_long()), [])
        (root / "examples/folder").mkdir(parents=True)
        (root / "examples/README.md").write_text("| [01_good](01_good.cpp) | an example |\n")
        for name in ("01_good.cpp", "02_new.cu", "folder/folder.cpp", "folder/part.cpp"):
            (root / "examples" / name).write_text("")
        expect(
            list(check.unlisted()),
            [
                "docs/guide.md: the table of guides in README.md lacks this page",
                "examples/02_new.cu: the table of examples/README.md lacks this example",
                "examples/folder/folder.cpp: the table of examples/README.md lacks this example",
            ],
        )
        (root / "examples/README.md").write_text("[01_good](01_good.cpp) [02_new](02_new.cu) [folder](folder/folder.cpp)\n")
        (root / "README.md").write_text(good + "| [Guide](docs/guide.md) | a page |\n")
        expect(list(check.unlisted()), [])
        expect(pages.listed_guides(), [("docs/guide.md", "Guide")])

        (root / "README.md").write_text(good + "[no file](none.md)\n\n[no anchor](docs/guide.md#none)\n" + 150 * "\n")
        expect(
            list(check.dead_links()),
            [
                "README.md:6: none.md: there is no such file",
                "README.md:8: docs/guide.md#none: docs/guide.md has no heading with this anchor",
            ],
        )
        expect(list(check.too_long()), ["README.md has 158 lines; at most 150"])
        (root / "docs/guide.md").write_text(9 * "```cpp\nuse(a);\n```\n" + "```cpp\nint b = 1;\n```\n")
        expect(
            list(check.uncompiled_blocks()),
            ["docs/guide.md:29: this code is in no source that is compiled; see tests/docs"],
        )

        (root / "docs/tuning.md").write_text("| `TUTTI_GOOD` | described |\n")
        (root / "include").mkdir()
        (root / "include/variables.hpp").write_text('get("TUTTI_GOOD"), get("TUTTI_NEW")\n')
        expect(list(check.undescribed_variables()), ["docs/tuning.md: the table of environment variables lacks TUTTI_NEW"])

        expect(comments.filtered(HEADER), EXPECTED)
        (root / "header.hpp").write_text(HEADER)
        expect(comments.names_without_comment("header.hpp"), ["pair"])
    print("the checks of the documentation find what is wrong")


if __name__ == "__main__":
    main()
