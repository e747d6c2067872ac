#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The slowest files of a build tree, from ninja's log.

usage: compile_times.py BUILD_DIR [--top N] [--limit SECONDS]

With --limit, a file whose last build took longer by the wall clock is compiled once more, alone and without ccache, and is
an error (exit 1) if that takes more than SECONDS of processor time: a busy machine alone fails nobody. Nor does a slow
one: the seconds are those of the machine on which YARDSTICK, Catch2's own code, took YARDSTICK_S; where it takes longer, the
limit grows as much, at most MOST_TIMES.
"""
import argparse
import json
import os
import resource
import shlex
import subprocess
import sys

YARDSTICK = "tests/support/CMakeFiles/muster_test_main.dir/test_main.cpp.o"
YARDSTICK_S = 7.0
MOST_TIMES = 4


def wall_times(build_dir):
    """Seconds of the last compilation of each object file that ninja's log names, slowest first."""
    seconds = {}
    with open(os.path.join(build_dir, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.rstrip("\n").split("\t")
            if len(fields) >= 4 and fields[3].endswith(".o"):
                seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return sorted(seconds.items(), key=lambda item: -item[1])


def processor_seconds(build_dir, output):
    """Processor time of compiling one object again, or None if it belongs to no source any more."""
    with open(os.path.join(build_dir, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        if entry.get("output") != output and f" -o {output} " not in entry["command"]:
            continue
        command = [word for word in shlex.split(entry["command"]) if os.path.basename(word) != "ccache"]
        command[command.index("-o") + 1] = os.devnull
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=entry["directory"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return None


def slowness(yardstick_s):
    """How many times longer than on the machine that set the limit, from 1 to MOST_TIMES."""
    return min(max(1, yardstick_s / YARDSTICK_S), MOST_TIMES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build_dir")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--limit", type=float)
    arguments = parser.parse_args()
    times = wall_times(arguments.build_dir)
    for output, seconds in times[:arguments.top]:
        print(f"{seconds:7.1f} s  {output}")
    slow = {}
    # By the wall clock of the same build: what is not slow beside the yardstick need not be measured.
    worth_measuring = (arguments.limit or 0) * slowness(dict(times).get(YARDSTICK, 0))
    for output, seconds in times if arguments.limit else []:
        if seconds <= worth_measuring:
            break
        spent = processor_seconds(arguments.build_dir, output)
        if spent is not None and spent > arguments.limit:
            slow[output] = spent
    if not slow:
        return 0
    yardstick = slow.pop(YARDSTICK, None) or processor_seconds(arguments.build_dir, YARDSTICK) or 0
    times_slower = slowness(yardstick)
    print(f"this machine takes {times_slower:.1f} times as long as the one that set the limit")
    limit = arguments.limit * times_slower
    failed = {output: spent for output, spent in slow.items() if spent > limit}
    for output, spent in failed.items():
        print(f"{output}: {spent:.1f} s to compile, at most {limit:.3g} on this machine: split the file or its includes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
