#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums CTest result files (ctest --output-junit).

usage: test_summary.py RESULTS.xml...    prints failed and skipped tests and, last, "N passed, N failed, N skipped"

A skipped test says why in the first line of its output that speaks of skipping. Exits 1 if a test failed.
"""
import os
import sys
import xml.etree.ElementTree as ElementTree


def reason(case):
    output = case.findtext("system-out") or ""
    lines = [line.strip() for line in output.splitlines() if "skip" in line.lower()]
    return lines[0] if lines else "no reason given"


def main(paths):
    passed, failed, skipped = 0, [], []
    for path in paths:
        stage = os.path.splitext(os.path.basename(path))[0]
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{stage}: {case.get('name')}"
            if case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
                skipped.append(f"{name}: {reason(case)}")
            elif case.find("failure") is not None or case.get("status") == "fail":
                failed.append(name)
            else:
                passed += 1
    for title, names in (("Skipped", skipped), ("Failed", failed)):
        if names:
            print(f"{title}:")
            print("\n".join(f"  {name}" for name in names))
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
