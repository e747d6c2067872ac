# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, as /proc shows them. What has ended meanwhile is left out."""
import os
import time


def read(pid, item):
    """A file of the process, or "" if it has ended."""
    try:
        with open(f"/proc/{pid}/{item}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def name_of(pid):
    return read(pid, "comm").strip()


def children(pid, name=None):
    """Its children, those of all its threads; of that name only, if one is given."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = [int(word) for thread in threads for word in read(pid, f"task/{thread}/children").split()]
    return [child for child in found if name is None or name_of(child) == name]


def tree(pid):
    """It and all that descend from it."""
    return [pid, *(member for child in children(pid) for member in tree(child))]


def marked(mark):
    """Pids of the living processes with MUSTER_TEST_MARK=<mark> in their environment."""
    needle = f"MUSTER_TEST_MARK={mark}"
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and needle in read(entry, "environ").split("\0")
            and read(entry, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])]


def cpu_seconds(pid):
    fields = read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, what, seconds=60, pause_s=0.01):
    """Returns what `condition` returns once that is true."""
    give_up = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {seconds:.1f} s for {what}")
        time.sleep(pause_s)
    return result
