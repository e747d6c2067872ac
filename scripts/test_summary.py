#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the results of a test run.

usage: test_summary.py FOLDER [--rooms SECONDS.json] [--partial]

FOLDER holds, as scripts/test.sh writes them: TREE.NAME.xml (ctest --output-junit), TREE.NAME.again.xml (a second run of tests that
failed in TREE.NAME.xml and measure time: one that passed there is named as unsteady and counts as passed, if all that failed in
the first was late), TREE.json (ctest --show-only=json-v1, which knows each test's room), promises.jsonl (what
tests/support/promise.py wrote).

Prints what was promised and measured, the seconds of each room, skipped, unsteady and failed tests and, last, "N passed, N failed, N
skipped". Exits 1 if a test failed, if one of TREE.json has no result (unless --partial), or if a room's tests took more than its
seconds in SECONDS.json and a half again (and more than 30 s), or all of them more than its "in all", scaled by how slow the promises
found the machine: then the room says what it freed elsewhere, or its tests become quicker. A room between its seconds and that is named
alone. The seconds of the rooms add up to "in all" at most, which a new capability raises by its own new rooms alone.
"""
import argparse
import glob
import json
import math
import os
import re
import statistics
import sys
import xml.etree.ElementTree as ElementTree

# Only what is late may be excused: whoever judges a time says so in these words (tests/support/promise.py, promise.hpp).
LATE = "too late: "
# How a program says that something failed: the heading of each failure, of unittest, Catch2 and our own runners; then the last line
# of a traceback; what a sanitizer reports.
HEADING = re.compile(r"^(FAIL|ERROR): \w+ \(|: FAILED:$|^FAILED (?!\()|^\w+ failed \(|^Missed: ", re.M)
EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Expired|Exit|Interrupt|Unavailable)\b.*", re.M)
REPORT = re.compile(r"(ERROR|WARNING): (\w+Sanitizer|libFuzzer)|runtime error:")

# The tests of a small room wait for the processor as long as their neighbours of that moment let them: their seconds say nothing.
SMALL_ROOM_S = 30
# What runs beside a room differs from run to run, and its tests take longer for that: only beyond this share of its seconds it is the room.
ROOM_SLACK = 1.5
# In the table of seconds: what all rooms together may take.
IN_ALL = "in all"


def output(case):
    return case.findtext("system-out") or ""


def skip_reasons(case):
    return [line.strip() for line in output(case).splitlines() if line.startswith("skipped: ")]


def failed(case):
    return case.find("failure") is not None or case.get("status") != "run"


def is_skipped(case):
    """By its own word. What could not be started has "skipped" there, too."""
    skipped = case.find("skipped")
    return skipped is not None and (skipped.get("message") or "").startswith("SKIP_") or case.get("status") == "disabled"


def excusable(case, timeout_s):
    """Whether it was late and nothing else failed: no heading and no exception without the words, no report of a sanitizer, and it
    came to its end."""
    text = output(case)
    late = text.count(LATE)
    return (late > 0 and len(HEADING.findall(text)) <= late and not REPORT.search(text)
            and all(LATE in line for line in EXCEPTION.findall(text)) and float(case.get("time") or 0) < timeout_s)


def read_cases(folder):
    """{(tree, test): case} of the first runs, and the same of the second ones."""
    first, again = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "*.xml"))):
        tree, *rest = os.path.basename(path).removesuffix(".xml").split(".")
        cases = again if rest[-1:] == ["again"] else first
        cases.update(((tree, case.get("name")), case) for case in ElementTree.parse(path).getroot().iter("testcase"))
    return first, again


def read_tests(folder):
    """{(tree, test): room}, by the label room=..., and {(tree, test): time limit} of all tests that scripts/test.sh is to run."""
    rooms, timeouts = {}, {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        tree = os.path.basename(path).removesuffix(".json")
        with open(path, encoding="utf-8") as file:
            tests = json.load(file)["tests"]
        for test in tests:
            properties = {each["name"]: each["value"] for each in test.get("properties", [])}
            labels = properties.get("LABELS", [])
            room = next((label.removeprefix("room=") for label in labels if label.startswith("room=")), None)
            if room and "soak" not in labels:
                rooms[tree, test["name"]] = room
                timeouts[tree, test["name"]] = properties.get("TIMEOUT", math.inf)
    return rooms, timeouts


def read_promises(folder):
    try:
        with open(os.path.join(folder, "promises.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def print_promises(promises):
    if not promises:
        return 1.0
    print("Promised and measured (median and worst of the tries; the median's bound is at most 3 times the promise, scaled by the machine):")
    print(f"  {'promise':>9} {'figure':>9} {'bound':>9} {'worst':>9} {'limit':>9} {'machine':>7} tries  what")
    for line in promises:
        late = "" if line["median"] <= line["bound"] and line["worst"] <= line["limit"] else "  LATE"
        print(f"  {line['promise']:8.3f}s {line['median']:8.3f}s {line['bound']:8.3f}s {line['worst']:8.3f}s {line['limit']:8.3f}s "
              f"{line['factor']:6.2f}x {line['tries']:3}  "
              f"{line['suite']}: {line['name']}{late}")
    return statistics.median(line["factor"] for line in promises)


def check_rooms(cases, rooms, table, factor):
    """Prints each room's seconds. Texts: what took too many; what took more than its seconds and is named alone."""
    seconds, budget = {}, {room: may for room, may in table.items() if room != IN_ALL}
    in_all = table.get(IN_ALL, sum(budget.values()))
    for key, case in cases.items():
        seconds[rooms.get(key, "no room")] = seconds.get(rooms.get(key, "no room"), 0.0) + float(case.get("time") or 0)
    print(f"Seconds of each room's tests, and what it may take (this machine: {factor:.2f} times as slow as the one of the table):")
    over, slow = [], []
    for room, took in sorted(seconds.items(), key=lambda item: -item[1]):
        may = budget.get(room)
        print(f"  {took:7.1f} of {'?' if may is None else may:>4}  {room}")
        if may is None:
            over.append(f"{room} is not in the table of seconds")
        elif took > max(may, SMALL_ROOM_S) * factor:
            told = over if took > max(may, SMALL_ROOM_S) * factor * ROOM_SLACK else slow
            told.append(f"{room} took {took:.0f} s and may take {max(may, SMALL_ROOM_S) * factor:.0f}: make its tests quicker, or say what you freed elsewhere")
    total = sum(seconds.values())
    print(f"  {total:7.1f} of {in_all:4}  in all, side by side")
    if total > max(in_all, SMALL_ROOM_S) * factor:
        over.append(f"all rooms took {total:.0f} s and may take {max(in_all, SMALL_ROOM_S) * factor:.0f}: make tests quicker")
    if sum(budget.values()) > in_all:
        over.append(f"the seconds of the rooms add up to {sum(budget.values())}, more than \"{IN_ALL}\", {in_all}: take them from another "
                    "room, or raise that by what rooms that are new need")
    return over, slow


def judge(first, again, timeouts):
    """Numbers and names of what passed, passed later, failed and skipped."""
    passed, unsteady, failures, skipped, parts = 0, [], [], [], []
    for (tree, test), case in first.items():
        name, second = f"{tree}: {test}", again.get((tree, test))
        if is_skipped(case):
            skipped.append(f"{name}: {(skip_reasons(case) or ['no reason given'])[0]}")
        elif not failed(case):
            passed += 1
            parts += [f"{name}: {reason}" for reason in skip_reasons(case)]
        elif second is not None and second.get("status") == "run" and not failed(second) and excusable(case, timeouts.get((tree, test), math.inf)):
            passed += 1
            unsteady.append(name)
        else:
            failures.append(name)
    return passed, unsteady, failures, skipped, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--rooms")
    parser.add_argument("--partial", action="store_true")
    arguments = parser.parse_args()
    first, again = read_cases(arguments.folder)
    factor = print_promises(read_promises(arguments.folder))
    over, slow, (rooms, timeouts) = [], [], read_tests(arguments.folder)
    if arguments.rooms:
        with open(arguments.rooms, encoding="utf-8") as file:
            over, slow = check_rooms(first, rooms, json.load(file), factor)
    passed, unsteady, failures, skipped, parts = judge(first, again, timeouts)
    if not arguments.partial:
        failures += [f"{tree}: {test}: it was not run" for tree, test in sorted(rooms.keys() - first.keys())]
    for title, names in (("Skipped", skipped), ("Skipped in part", parts),
                         ("Unsteady: late, then in time alone; each is a defect to look into", unsteady),
                         ("Rooms that took longer than their seconds, which fails the run only beyond a half again", slow),
                         ("Rooms that took too long", over), ("Failed", failures)):
        if names:
            print(f"{title}:")
            print("\n".join(f"  {name}" for name in names))
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} skipped")
    return 1 if failures or over else 0


if __name__ == "__main__":
    sys.exit(main())
