#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes the most memory that it had to FOLDER/peak.RANK.

usage: rank_peaks.py FOLDER COMMAND...
"""
import os
import resource
import subprocess
import sys
import typing

LOOK_EACH_S = 0.02


class Peak(typing.NamedTuple):
    """Bytes of one rank's process."""
    resident: int  # as the kernel counts them: what processes share counts for each of them
    # Without the pages of files; of what n processes share, the n-th part. It had so much at one of ten looks or more: a page counts whole
    # for the first process that touches it, and for the last one that is still there. 0: this kernel does not tell it.
    own: int


def measured(folder):
    """The words to put in front of a rank's command."""
    return [sys.executable, os.path.abspath(__file__), folder]


def read(folder, ranks):
    """What the ranks have written."""
    peaks = []
    for rank in range(ranks):
        with open(os.path.join(folder, f"peak.{rank}"), encoding="ascii") as file:
            peaks.append(Peak(*map(int, file.read().split())))
    return peaks


def own_bytes(pid):
    """What a process has now, as in Peak.own: proc(5), smaps_rollup, since Linux 5.4."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            sizes = {words[0]: int(words[1]) for words in map(str.split, file.readlines()[1:])}
    except OSError:  # it has ended
        return 0
    return 1024 * (sizes.get("Pss_Anon:", 0) + sizes.get("Pss_Shmem:", 0))


def main(folder, *command):
    looks = [0]
    with subprocess.Popen(command) as process:
        while True:
            try:
                process.wait(LOOK_EACH_S)
                break
            except subprocess.TimeoutExpired:
                looks.append(own_bytes(process.pid))
    own = sorted(looks)[len(looks) * 9 // 10]
    with open(os.path.join(folder, f"peak.{os.environ['RANK']}"), "w", encoding="ascii") as file:
        file.write(f"{1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss} {own}")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
