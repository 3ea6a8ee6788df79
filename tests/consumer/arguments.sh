#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# arguments.sh SOURCES: the scripts of tools/ check their arguments before they do anything. A stand-in for cmake prints what it is to do.
set -eu
tools=$1/tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
printf '#!/bin/sh\necho "cmake $*"\n' >"$work/bin/cmake"
chmod +x "$work/bin/cmake"
touch "$work/file"
cd "$work"

# expect CODE SENTENCE COMMAND ARGUMENT...
expect() {
  code=0 expected=$1 sentence=$2
  shift 2
  PATH=$work/bin:$PATH "$tools/$@" >"$work/said" 2>&1 || code=$?
  if [ $code -ne "$expected" ] || ! grep -q -F -e "$sentence" "$work/said"; then
    echo "tools/$*: exit code $code instead of $expected, or it did not say \"$sentence\":"
    cat "$work/said"
    exit 1
  fi
}

expect 0 "--prefix $work/here" install here
expect 0 "--prefix $work/there" install "$work/there"
expect 2 "usage: tools/install [folder]" install --help
expect 2 "usage: tools/install [folder]" install ""
expect 2 "usage: tools/install [folder]" install one two
expect 2 "$work/file is not a folder" install file
expect 2 "usage: tools/demo" demo --help
expect 2 "usage: tools/docs" docs --help
expect 2 "usage: tools/bench [all]" bench --help
expect 2 "usage: tools/test [all]" test --help
expect 2 "usage: tools/bench [all]" bench all x
expect 2 "usage: tools/test [all]" test all x
expect 2 "usage: tools/bench [all]" bench "" x
# Nothing is built for a folder that cannot be written.
expect 1 "you may not write to /proc/nowhere; name a folder of your own: tools/install ~/.local" install /proc/nowhere
if grep -q '^cmake' "$work/said"; then cat "$work/said"; exit 1; fi
if command -v python3 >/dev/null; then
  expect 1 "report.py: there/is/none.jsonl: No such file or directory" ../bench/report.py there/is/none.jsonl
  printf 'a page\n' >page.md
  expect 1 "report.py: page.md, line 1 is no result of bench/run.py; name its .jsonl files" ../bench/report.py page.md
  printf '{"record": "time"}\n' >page.md
  expect 1 "report.py: page.md, line 1 is no result of bench/run.py; name its .jsonl files" ../bench/report.py --ranking page.md
fi
