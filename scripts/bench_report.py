#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts measured sections into docs/benchmarks.md and leaves everything else in it alone.

usage: bench_report.py DOCUMENT SECTION=RESULT.md...

A section is what stands between "<!-- begin SECTION -->" and "<!-- end SECTION -->"; remarks written outside those marks
stay. A document without the marks gets them at its end.
"""
import datetime
import os
import platform
import re
import subprocess
import sys


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    flags = [name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if name in open("/proc/cpuinfo").read()]
    return f"{len(os.sched_getaffinity(0))} cores of {model} ({flags[0] if flags else 'no AVX2'}), Linux {platform.release()}"


def revision():
    result = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown revision"


def replace_section(document, name, text):
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    block = f"{begin}\n{text.strip()}\n{end}"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    if pattern.search(document):
        return pattern.sub(lambda _: block, document)
    return f"{document.rstrip()}\n\n## {name.capitalize()}\n\n{block}\n"


def main(path, assignments):
    with open(path, encoding="utf-8") as file:
        document = file.read()
    made = f"Made {datetime.date.today().isoformat()} at {revision()} on {machine()}"
    for assignment in assignments:
        name, _, result = assignment.partition("=")
        with open(result, encoding="utf-8") as file:
            document = replace_section(document, name, f"{made}, by `scripts/bench.sh {name}`.\n\n{file.read()}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(document)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
