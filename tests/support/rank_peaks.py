#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes the most memory that it had (resident bytes) to FOLDER/peak.RANK.

usage: rank_peaks.py FOLDER COMMAND...
"""
import os
import resource
import subprocess
import sys


def measured(folder):
    """The words to put in front of a rank's command."""
    return [sys.executable, os.path.abspath(__file__), folder]


def read(folder, ranks):
    """What the ranks have written, in bytes."""
    peaks = []
    for rank in range(ranks):
        with open(os.path.join(folder, f"peak.{rank}"), encoding="ascii") as file:
            peaks.append(int(file.read()))
    return peaks


def main(folder, *command):
    code = subprocess.run(command, check=False).returncode
    with open(os.path.join(folder, f"peak.{os.environ['RANK']}"), "w", encoding="ascii") as file:
        file.write(str(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
