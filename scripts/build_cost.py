#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a build costs, in processor seconds beside a yardstick: a rule about the sum, which a slow machine or a busy one does not change.

usage: build_cost.py record TREE COMMAND...    runs the build and writes TREE/build_cost.json
       build_cost.py check TREE                exits 1 if the recorded build cost more than MOST_TIMES the yardstick

A build counts when it compiled every unit of the tree itself: one that went on from an earlier one, or that the compiler's cache served,
is "not measured". The yardstick is one compilation of YARDSTICK, without the cache, at the time of the check.
"""
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile

YARDSTICK = "test_main.cpp"
# Measured: 68 (2 cores, GCC 12), before the public networks, models in shards and replicas came with some twenty files and a library.
# What is added must be taken away elsewhere, or the figure changed with a reason.
# 67 now (189 units, 787 s), on another processor; a twelfth above the dearest measured (81) is left.
MOST_TIMES = 88


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compile_commands(tree):
    with open(os.path.join(tree, "compile_commands.json"), encoding="utf-8") as file:
        return json.load(file)


def newest_logged(tree):
    """The time stamp of every output that ninja's log names."""
    try:
        with open(os.path.join(tree, ".ninja_log"), encoding="utf-8") as log:
            lines = [line.rstrip("\n").split("\t") for line in log if not line.startswith("#")]
    except FileNotFoundError:
        return {}
    return {fields[3]: fields[2] for fields in lines if len(fields) >= 4 and fields[3].endswith(".o")}


def record(tree, command):
    before, begin = newest_logged(tree), children_seconds()
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as cache_log:
        code = subprocess.run(command, env={**os.environ, "CCACHE_STATSLOG": cache_log.name}, check=False).returncode
        hits = sum(line.strip().endswith("cache_hit") for line in cache_log)
    seconds = children_seconds() - begin
    after = newest_logged(tree)
    compiled = sum(before.get(output) != stamp for output, stamp in after.items())
    cost = {"seconds": round(seconds, 1), "compiled": compiled, "units": len(after), "cache_hits": hits, "finished": code == 0}
    with open(os.path.join(tree, "build_cost.json"), "w", encoding="utf-8") as file:
        json.dump(cost, file)
    return code


def yardstick_seconds(tree):
    entry = next(entry for entry in compile_commands(tree) if os.path.basename(entry["file"]) == YARDSTICK)
    command = [word for word in shlex.split(entry["command"]) if os.path.basename(word) != "ccache"]
    command[command.index("-o") + 1] = os.devnull
    begin = children_seconds()
    subprocess.run(command, cwd=entry["directory"], check=True, capture_output=True)
    return children_seconds() - begin


def check(tree):
    try:
        with open(os.path.join(tree, "build_cost.json"), encoding="utf-8") as file:
            cost = json.load(file)
    except FileNotFoundError:
        print(f"not measured: {tree} was not built by scripts/test.sh")
        return 0
    if not cost["finished"] or cost["cache_hits"] or cost["compiled"] < cost["units"]:
        print(f"not measured: the last build compiled {cost['compiled']} of {cost['units']} units, {cost['cache_hits']} came from the cache")
        return 0
    yardstick = yardstick_seconds(tree)
    times = cost["seconds"] / yardstick
    print(f"{cost['units']} units took {cost['seconds']:.0f} s of processor time, {times:.1f} times {YARDSTICK} ({yardstick:.1f} s); "
          f"at most {MOST_TIMES} times")
    return 0 if times <= MOST_TIMES else 1


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == "record":
        return record(arguments[1], arguments[2:])
    if len(arguments) == 2 and arguments[0] == "check":
        return check(arguments[1])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
