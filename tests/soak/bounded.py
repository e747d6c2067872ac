#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command for a time at most, and ends every process that is left of it.

usage: bounded.py SECONDS LOG COMMAND...    output goes to the end of LOG

Exit code: the command's; 124 where its time was up; 130 where we were interrupted (SIGINT, SIGTERM). What it left, sessions of their
own included, is asked to end, and killed 10 s later.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 10


def descendants():
    """Every process below this one. Those whose parents are dead are our own children."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] not in "ZX":
            parents[int(entry)] = int(fields[1])
    found, before = {os.getpid()}, 0
    while len(found) != before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all():
    deadline = time.monotonic() + GRACE_S
    number, told = signal.SIGTERM, set()
    while True:
        reap()
        left = descendants()
        if not left:
            return
        if time.monotonic() > deadline:
            number, told = signal.SIGKILL, set()
        for pid in left - told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        told |= left
        time.sleep(0.05)


class Interrupted(Exception):
    pass


def interrupted(*_):
    # Once: what is left is ended whatever else comes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted


def main():
    seconds, log, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    code = 130
    try:
        with open(log, "ab") as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
    except Interrupted:
        pass
    end_all()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
