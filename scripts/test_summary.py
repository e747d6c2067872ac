#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the results of a test run.

usage: test_summary.py FOLDER [--rooms SECONDS.json] [--partial]

FOLDER holds, as scripts/test.sh writes them: TREE.NAME.xml (ctest --output-junit), TREE.NAME.again.xml (a second run of tests that
failed in TREE.NAME.xml and measure time: one that passed there is named as unsteady and counts as passed, unless a sanitizer
reported something in the first), TREE.json (ctest --show-only=json-v1, which knows each test's room), promises.jsonl (what
tests/support/promise.py wrote).

Prints what was promised and measured, the seconds of each room, skipped, unsteady and failed tests and, last, "N passed, N failed, N
skipped". Exits 1 if a test failed, if one of TREE.json has no result (unless --partial), or if a room's tests took more than its
seconds in SECONDS.json (and more than 30 s), scaled by how slow the promises found the machine: then the room says what it freed
elsewhere, or its tests become quicker.
"""
import argparse
import glob
import json
import os
import re
import statistics
import sys
import xml.etree.ElementTree as ElementTree

NEVER_EXCUSED = re.compile(r"(ERROR|WARNING): (\w+Sanitizer|libFuzzer)|runtime error:")


# The tests of a small room wait for the processor as long as their neighbours of that moment let them: their seconds say nothing.
SMALL_ROOM_S = 30


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


def excusable(case):
    return not NEVER_EXCUSED.search(output(case))


def read_cases(folder):
    """{(tree, test): case} of the first runs, and the same of the second ones."""
    first, again = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "*.xml"))):
        tree, *rest = os.path.basename(path).removesuffix(".xml").split(".")
        cases = again if rest[-1:] == ["again"] else first
        cases.update(((tree, case.get("name")), case) for case in ElementTree.parse(path).getroot().iter("testcase"))
    return first, again


def read_rooms(folder):
    """{(tree, test): room}, by the label room=..., of all tests that scripts/test.sh is to run."""
    rooms = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        tree = os.path.basename(path).removesuffix(".json")
        with open(path, encoding="utf-8") as file:
            tests = json.load(file)["tests"]
        for test in tests:
            labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
            room = next((label.removeprefix("room=") for label in labels if label.startswith("room=")), None)
            if room and "soak" not in labels:
                rooms[tree, test["name"]] = room
    return rooms


def read_promises(folder):
    try:
        with open(os.path.join(folder, "promises.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def print_promises(promises):
    if not promises:
        return 1.0
    print("Promised and measured (median of the tries; the bound is at most 3 times the promise, scaled by the machine):")
    print(f"  {'promise':>9} {'figure':>9} {'bound':>9} {'machine':>7} tries  what")
    for line in promises:
        late = "" if line["median"] <= line["bound"] else "  LATE"
        print(f"  {line['promise']:8.3f}s {line['median']:8.3f}s {line['bound']:8.3f}s {line['factor']:6.2f}x {line.get('tries', 1):3}  "
              f"{line['suite']}: {line['name']}{late}")
    return statistics.median(line["factor"] for line in promises)


def check_rooms(cases, rooms, budget, factor):
    """Prints each room's seconds; those that took too many, as texts."""
    seconds = {}
    for key, case in cases.items():
        seconds[rooms.get(key, "no room")] = seconds.get(rooms.get(key, "no room"), 0.0) + float(case.get("time") or 0)
    print(f"Seconds of each room's tests, and what it may take (this machine: {factor:.2f} times as slow as the one of the table):")
    over = []
    for room, took in sorted(seconds.items(), key=lambda item: -item[1]):
        may = budget.get(room)
        print(f"  {took:7.1f} of {'?' if may is None else may:>4}  {room}")
        if may is None:
            over.append(f"{room} is not in the table of seconds")
        elif took > max(may, SMALL_ROOM_S) * factor:
            over.append(f"{room} took {took:.0f} s and may take {max(may, SMALL_ROOM_S) * factor:.0f}: make its tests quicker, or say what you freed elsewhere")
    print(f"  {sum(seconds.values()):7.1f} of {sum(budget.values()):4}  in all, side by side")
    return over


def judge(first, again):
    """Numbers and names of what passed, passed later, failed and skipped."""
    passed, unsteady, failures, skipped, parts = 0, [], [], [], []
    for (tree, test), case in first.items():
        name, second = f"{tree}: {test}", again.get((tree, test))
        if is_skipped(case):
            skipped.append(f"{name}: {(skip_reasons(case) or ['no reason given'])[0]}")
        elif not failed(case):
            passed += 1
            parts += [f"{name}: {reason}" for reason in skip_reasons(case)]
        elif second is not None and second.get("status") == "run" and not failed(second) and excusable(case):
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
    over, rooms = [], read_rooms(arguments.folder)
    if arguments.rooms:
        with open(arguments.rooms, encoding="utf-8") as file:
            over = check_rooms(first, rooms, json.load(file), factor)
    passed, unsteady, failures, skipped, parts = judge(first, again)
    if not arguments.partial:
        failures += [f"{tree}: {test}: it was not run" for tree, test in sorted(rooms.keys() - first.keys())]
    for title, names in (("Skipped", skipped), ("Skipped in part", parts),
                         ("Unsteady: failed, then passed alone; each is a defect to look into", unsteady),
                         ("Rooms that took too long", over), ("Failed", failures)):
        if names:
            print(f"{title}:")
            print("\n".join(f"  {name}" for name in names))
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} skipped")
    return 1 if failures or over else 0


if __name__ == "__main__":
    sys.exit(main())
