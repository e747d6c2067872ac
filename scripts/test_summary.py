#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums CTest result files (ctest --output-junit).

usage: test_summary.py RESULTS.xml...    prints failed and skipped tests and, last, "N passed, N failed, N skipped"

A skipped test says why in the first line of its output that speaks of skipping. TREE.again.xml holds a second run of tests
that failed in TREE.xml: one that passed there is named as unsteady and counts as passed, unless a sanitizer reported
something in the first, which no second run excuses. Exits 1 if a test failed.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason(case):
    output = case.findtext("system-out") or ""
    lines = [line.strip() for line in output.splitlines() if "skip" in line.lower()]
    return lines[0] if lines else "no reason given"


NEVER_EXCUSED = re.compile(r"(ERROR|WARNING): (\w+Sanitizer|libFuzzer)|runtime error:")


def failed(case):
    return case.find("failure") is not None or case.get("status") != "run"


def is_skipped(case):
    """By its own word. What could not be started has "skipped" there, too."""
    skipped = case.find("skipped")
    return skipped is not None and (skipped.get("message") or "").startswith("SKIP_") or case.get("status") == "disabled"


def excusable(case):
    return not NEVER_EXCUSED.search(case.findtext("system-out") or "")


def read(paths):
    """{tree: {name: case}} of the first runs, and the same of the second ones."""
    first, again = {}, {}
    for path in paths:
        tree, _, second = os.path.splitext(os.path.basename(path))[0].partition(".")
        cases = (again if second == "again" else first).setdefault(tree, {})
        cases.update((case.get("name"), case) for case in ElementTree.parse(path).getroot().iter("testcase"))
    return first, again


def main(paths):
    passed, unsteady, failures, skipped = 0, [], [], []
    first, again = read(paths)
    for tree, cases in first.items():
        for case in cases.values():
            name = f"{tree}: {case.get('name')}"
            second = again.get(tree, {}).get(case.get("name"))
            if is_skipped(case):
                skipped.append(f"{name}: {reason(case)}")
            elif not failed(case):
                passed += 1
            elif second is not None and second.get("status") == "run" and not failed(second) and excusable(case):
                passed += 1
                unsteady.append(name)
            else:
                failures.append(name)
    for title, names in (("Skipped", skipped), ("Unsteady: failed, then passed alone; each is a defect to look into", unsteady),
                         ("Failed", failures)):
        if names:
            print(f"{title}:")
            print("\n".join(f"  {name}" for name in names))
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
