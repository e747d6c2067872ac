#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten slow PyTorch programs that are well: none is said to be hung, and none is ended.

usage: slow_test.py [default] [NAME...]    with --hang-timeout 15 and short waits; default: the default of 60 s and long ones"""
import concurrent.futures
import contextlib
import functools
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import interop
from interop import check
from watched_job import DONE, HUNG, Job, ROUND_ENDED

SCRIPT = "slow_programs.py"
RANKS = 2
# A program may take several times as long as it was told: others use the processors, too.
END_S = 240
PARALLEL = 5


IS_HUNG = r"\b(?:is|are) hung\b"


def quietly(job, seconds):
    """Lets this time pass once all ranks are ready, for it is what is tested; less if something wrong is said."""
    job.ready()
    job.wait_for(IS_HUNG, seconds)


def by_itself(start, _folder, _seconds):
    with start() as job:
        yield job


def checkpoint(start, folder, seconds):
    path = os.path.join(folder, "checkpoint")
    os.mkfifo(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file, start(path) as job:
        quietly(job, seconds)
        os.set_blocking(file.fileno(), True)
        check(len(file.read()) == 8 << 20, "the checkpoint is not whole", job.shown())
        yield job


def idle_server(start, folder, seconds):
    path = os.path.join(folder, "socket")
    with start(path) as job:
        quietly(job, seconds)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.recv(1)
        yield job


def polling(start, folder, seconds):
    path = os.path.join(folder, "ready")
    with start(path) as job:
        quietly(job, seconds)
        with open(path, "w", encoding="utf-8"):
            pass
        yield job


def notebook(start, _folder, seconds):
    with start(stdin=subprocess.PIPE) as job:
        os.write(job.process.stdin.fileno(), b"print('cell', 6 * 7)\n")
        check(job.wait_for("cell 42", END_S), "the cell was not run", job.shown())
        quietly(job, seconds)
        os.write(job.process.stdin.fileno(), b"go_on = False\n")
        yield job
        job.process.stdin.close()


def debugger(start, _folder, seconds):
    ours, theirs = os.openpty()
    with open(ours, "r+b", buffering=0) as file, start(terminal=theirs) as job:
        os.close(theirs)
        job.read("terminal", file)
        quietly(job, seconds)
        file.write(b"c\n")
        yield job


# Each starts its program and does the test's part in it. None prints anything meanwhile.
PROGRAMS = {"debugger": debugger, "checkpoint": checkpoint, "idle_server": idle_server, "polling": polling, "notebook": notebook,
            **dict.fromkeys(("c_computation", "compilation", "evaluation", "loader_warm_up", "long_step"), by_itself)}


def run_once(name, flags, seconds, step_s):
    is_step = name == "long_step"
    with tempfile.TemporaryDirectory() as folder:
        run = contextlib.contextmanager(PROGRAMS[name])
        start = functools.partial(started, name, flags, step_s if is_step else seconds)
        with run(start, folder, seconds) as job:
            done = job.wait_for(DONE, END_S, RANKS)
            check(len(done) == RANKS, f"{name}: not all ranks came to their end", job.shown())
            check(job.process.wait(END_S) == 0, f"{name}: exit code {job.process.returncode}", job.shown())
            check(not job.found(IS_HUNG), f"{name}: it is called hung", job.shown())
            check(not is_step or not job.found(HUNG), f"{name}: something was said", job.shown())
            check(not job.found(ROUND_ENDED), f"{name}: a round ended", job.shown())
            lines = [text for _, text in job.found(HUNG)]
            print(f"{name}: {done[-1][0] - job.begin:.0f} s; {'; '.join(lines) or 'nothing was said'}", flush=True)


def started(name, flags, seconds, *paths, **streams):
    return Job(SCRIPT, [name, str(seconds), *paths], *flags, ranks=RANKS, **streams)


def main():
    interop.need_torch()
    words = sys.argv[1:]
    at_default = words[:1] == ["default"]
    names = words[at_default:] or list(PROGRAMS)
    flags, seconds, step_s = ([], 80, 40) if at_default else (["--hang-timeout", "15"], 20, 10)
    begin = time.monotonic()
    fallen = []
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        jobs = {name: pool.submit(run_once, name, flags, seconds, step_s) for name in names}
    for name, job in jobs.items():
        try:
            job.result()
        except (AssertionError, OSError):
            fallen.append(name)
            traceback.print_exc(file=sys.stdout)
    print(f"{time.monotonic() - begin:.0f} s")
    check(not fallen, f"{len(fallen)} of {len(names)} fell: {', '.join(fallen)}")


if __name__ == "__main__":
    main()
