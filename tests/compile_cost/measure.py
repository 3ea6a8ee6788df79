#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what tutti costs its users at -O2: processor time to compile, and the size of a program.

usage: measure.py COMPILER STRIP SOURCE_DIR BUILD_DIR

Costs are given in units of a source that includes the standard headers which tutti.hpp includes, because seconds and bytes belong to a
compiler and a machine. Processor time is what users pay, and is printed beside its target. It does not decide: beside other programs
it changes by a third, and more for large sources than for small ones. The memory that g++ allocates is the same in every run, so the
exit status is 1 if that memory or the size of the program exceeds its limit. The limits of memory are a tenth above today's costs.
"""

import pathlib
import re
import resource
import subprocess
import sys

# Several more collectives, because g++ collects garbage, which takes it 0.2 s, whenever its memory has grown by a certain amount.
MORE = 4
COLLECTIVES = f"""
#include <vector>
#include "tutti/tutti.hpp"
template <int> struct point {{ double x, y; }};
template <int I> void combine(tutti::communicator<>& comm) {{
  std::vector<point<I>> points(8);
  tutti::all_reduce(comm, points, [](point<I> a, point<I> b) {{ return point<I>{{a.x + b.x, a.y * b.y}}; }});
}}
int main() {{
  auto comm = tutti::init();
  std::vector<float> numbers(8);
  tutti::all_reduce(comm, numbers);
#ifdef MORE
  {"".join(f"combine<{i}>(comm); " for i in range(MORE))}
#endif
}}
"""


def main(compiler, strip, source_dir, build_dir):
    source_dir, build_dir = pathlib.Path(source_dir), pathlib.Path(build_dir)
    include = source_dir / "include"
    hello = source_dir / "examples" / "01_hello.cpp"
    standard, collectives = build_dir / "standard.cpp", build_dir / "collectives.cpp"
    standard.write_text(standard_headers(compiler, include) + "int main() {}\n")
    collectives.write_text(COLLECTIVES)

    compile_command = [compiler, "-std=c++20", "-O2", "-pthread", f"-I{include}", "-c"]
    programs = {
        "standard": [standard],
        "hello": [hello],
        "compiled": ["-DTUTTI_COMPILED", hello],
        "one": ["-DTUTTI_COMPILED", collectives],
        "more": ["-DTUTTI_COMPILED", "-DMORE", collectives],
    }
    seconds, megabytes = {}, {}
    for name, arguments in programs.items():
        command = [*compile_command, *arguments, "-o", build_dir / f"{name}.o"]
        seconds[name] = processor_time(command)
        megabytes[name] = allocated_memory(command)
    program = build_dir / "hello"
    subprocess.run([compiler, "-pthread", build_dir / "hello.o", "-o", program], check=True)
    subprocess.run([strip, program], check=True)
    kilobytes = program.stat().st_size / 1000

    print(f"compile cost: the standard headers alone take {seconds['standard']:.2f} s of processor time")
    print_with_target("01_hello, header-only", ratio(seconds, "hello"), "times", 5)
    print_with_target("01_hello, tutti::compiled", ratio(seconds, "compiled"), "times", 2.5)
    print_with_target("one more collective, tutti::compiled", ratio(seconds, "more", "one") / MORE, "times", 0.5)
    print_with_target("01_hello, header-only and stripped", kilobytes, "KB", 250)

    within_limits = [print_with_limit("01_hello, header-only and stripped", kilobytes, "KB", 300)]
    if megabytes["standard"]:
        print(f"compile cost: the standard headers alone take {megabytes['standard']} MB of the compiler's memory")
        within_limits += [
            print_with_limit("01_hello, header-only", ratio(megabytes, "hello"), "times the memory", 4.5),
            print_with_limit("01_hello, tutti::compiled", ratio(megabytes, "compiled"), "times the memory", 2.2),
            print_with_limit("one more collective, tutti::compiled", ratio(megabytes, "more", "one") / MORE, "times the memory", 0.18),
        ]
    else:
        print("compile cost: this compiler does not say how much memory it allocates: no limit is checked but that of the size")
    return 0 if all(within_limits) else 1


def ratio(costs, name, without=None):
    return (costs[name] - (costs[without] if without else 0)) / costs["standard"]


def print_with_target(name, cost, unit, target):
    print(f"compile cost: {name}: {cost:.2f} {unit} (target {target}{'' if cost <= target else ', missed'})")


def print_with_limit(name, cost, unit, limit):
    """Returns whether the cost is within its limit."""
    within_limit = cost <= limit
    print(f"compile cost: {name}: {cost:.2f} {unit} (limit {limit}{'' if within_limit else ': failed'})")
    return within_limit


def standard_headers(compiler, include):
    """The #include lines of standard headers in all headers that tutti.hpp reaches."""
    umbrella = include / "tutti" / "tutti.hpp"
    listed = subprocess.run([compiler, "-std=c++20", f"-I{include}", "-MM", "-x", "c++", umbrella],
                            capture_output=True, text=True, check=True).stdout
    names = set()
    for header in listed.replace("\\\n", " ").split()[1:]:
        names.update(re.findall(r"^#include <([\w./+-]+)>", pathlib.Path(header).read_text(), re.MULTILINE))
    return "".join(f"#include <{name}>\n" for name in sorted(names))


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def allocated_memory(command):
    """In MB, rounded: what g++ allocates in total, or None if the compiler does not report it."""
    report = subprocess.run([*command, "-ftime-report"], check=True, capture_output=True, text=True).stderr
    total = re.search(r"^ *TOTAL +:.* (\d+)M$", report, re.MULTILINE)
    return int(total[1]) if total else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
