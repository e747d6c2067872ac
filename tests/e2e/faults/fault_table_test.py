# SPDX-License-Identifier: Apache-2.0
"""Phase x fault for one backend: the culprit is named, the end comes in time, and nothing is left.

usage: fault_table_test.py <backend>
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial

from interop import check
from promise import PATIENCE_S, in_time, promise, promised

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "leftovers"))
from job_processes import MarkedJob  # noqa: E402

WORKER = os.environ["MUSTER_FAULT_WORKER"]
MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
RANKS = 3
# The others give up on a stopped rank after this; a busy machine must be able to make a world in it.
TIMEOUT_S = 8
# Where the agent ends the job, no deadline has a part in it.
PATIENT_S = 60
# What waits longer is reported: all others must have come to the call by then, and the deadline must be far.
REPORT_MS, REPORTED_TIMEOUT_S = 3000, 16
# What it takes until the whole job has ended after a rank was killed or has failed; Gloo's threads and sockets take longer to end.
USUAL_S = {"shm": 0.02, "gloo": 0.03, "nccl": 0.02}
TRIES = 3
# A rank that cannot make a group over one of these waits for word of another that has failed at it.
FAILS_IN_SPLIT = {"gloo": promised("rank-fails-in-split", "gloo"), "nccl": promised("rank-fails-in-split", "nccl")}
PHASES = {"init": "init", "barrier": "barrier", "collective": "all_reduce:2", "split": "split", "finalize": "finalize"}
# Not the folders of the fakes of other tests.
SHARED_MEMORY = re.compile("muster(?!-fake)|nccl|gloo", re.IGNORECASE)


def shared_memory_files():
    return {name for name in os.listdir("/dev/shm") if SHARED_MEMORY.search(name)}


class Run:
    """One `muster run` of the worker with a fault, ended."""

    def __init__(self, backend, fault, *flags, report_ms=0, timeout_s=PATIENT_S):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            scratch = os.path.join(folder, "tmp")
            os.mkdir(scratch)
            gpus = os.path.join(folder, "gpus")
            os.mkdir(gpus)  # the fakes of the GPU libraries keep their state there
            environment = {"MUSTER_FAULT": fault, "TMPDIR": scratch, "FAKE_GPU_DIR": gpus}
            start = time.monotonic()
            job = MarkedJob([WORKER, backend, str(timeout_s * 1000), *([str(report_ms)] if report_ms else [])],
                            "--report", report, "--shutdown-timeout", "2", "--log-dir", "/dev/null", *flags,
                            workers=RANKS, environment=environment)
            self.code, self.out, self.err = job.end(timeout_s + PATIENCE_S)
            self.seconds = time.monotonic() - start
            # How long ago the rank with the fault reached the call in which it struck.
            reached = re.findall(r"rank 1 reaches \w+ at (\S+)", self.out)
            self.since_fault = start + self.seconds - float(reached[-1]) if reached else None
            check(not job.left(), "left when the launcher ended: %s" % job.left(), self.err)
            check(os.listdir(scratch) == [], "files left in TMPDIR: %s" % os.listdir(scratch))
            with open(report, encoding="utf-8") as file:
                self.report = json.load(file)
        self.workers = self.report["nodes"][0]["workers"]
        self.calls = "\n".join(self.report["nodes"][0]["calls"])


def killed(backend, phase, operation):
    run = Run(backend, "kill@1:" + operation)
    root = run.report["root_cause"]
    check(run.code == 137 and root["rank"] == 1, "the root cause is not rank 1's death", run.err)
    check("rank 1" in run.err and "SIGKILL" in run.err, "the text does not name it", run.err)
    # What it did last is known although it was killed.
    check(root["call"]["process"] == "dead", "the call of the dead rank: %s" % root["call"], run.err)
    if phase == "collective":
        check(root["call"]["sequence"] == 2 and root["call"]["recent"], "its last calls: %s" % root["call"], run.err)
        check("last calls of rank 1" in run.err, "the text does not show its last calls", run.err)
    return run


def stopped(backend, phase, operation):
    # Of the whole job: it must be able to come so far.
    flags = ("--timeout", str(2 * TIMEOUT_S)) if phase == "finalize" else ()
    run = Run(backend, "stop@1:" + operation, *flags, timeout_s=TIMEOUT_S)
    check(run.code == (124 if flags else 1), "exit code %d" % run.code, run.err)
    check("rank 1" in run.calls and "stopped by a signal or a debugger" in run.calls,
          "the report does not say that rank 1 is stopped: %s" % run.calls, run.err)
    if phase == "collective":
        check("rank 1 never entered all_reduce #3 " in run.calls, run.calls, run.err)
        check("ranks 0, 2 wait since" in run.calls, run.calls, run.err)
    return run


def failed(backend, phase, operation):
    run = Run(backend, "error@1:" + operation)
    check(run.code == 1, "exit code %d" % run.code, run.err)
    check("injected on rank 1" in run.err, "the text does not say what failed", run.err)
    if phase == "finalize":  # it is that rank's alone
        check(run.report["root_cause"]["rank"] == 1, "not rank 1's error", run.err)
    return run


def delayed(backend, _, operation):
    run = Run(backend, "delay:300@1:" + operation)
    check(run.code == 0 and run.out.count("done") == RANKS, "exit code %d" % run.code, run.err)


def killed_inside(backend):
    """While all ranks are in a large collective."""
    run = Run(backend, "kill+3@1:all_reduce:4")
    check(run.code == 137 and run.report["root_cause"]["rank"] == 1, "the root cause is not rank 1's death", run.err)
    return run


def reported_while_waiting(backend):
    """The agent says who is missing long before any deadline."""
    run = Run(backend, "stop@1:all_reduce:2", report_ms=REPORT_MS, timeout_s=REPORTED_TIMEOUT_S)
    check(re.search(r"warning: .*rank 1 never entered all_reduce #3 .*of group 'world'; ranks 0, 2 wait since .*"
                    r"Rank 1 \(process \d+\) is stopped", run.err), "no such line", run.err)
    check(run.err.count("never entered all_reduce #3 ") == 2, "said more than once besides the report", run.err)
    return run


def rows(backend):
    """What is done, as a name and a function that returns its Run; what is promised of it; how often."""
    usual = USUAL_S[backend]
    for phase, operation in PHASES.items():
        # The deadline of a whole job counts from its start.
        deadline_s = 2 * TIMEOUT_S if phase == "finalize" else TIMEOUT_S
        fails = promised("rank-fails-in-a-call")
        if phase == "split":
            fails = FAILS_IN_SPLIT.get(backend, fails)
        for fault, bound, tries in ((stopped, promised("rank-stops", clock=deadline_s + fails["clock"]), 1),
                                    (killed, promised("rank-killed", usual=usual), TRIES),
                                    (failed, dict(fails, usual=usual), TRIES),
                                    (delayed, None, 1)):
            yield "%s in %s" % (fault.__name__, phase), partial(fault, backend, phase, operation), bound, tries
    yield "killed inside a collective", partial(killed_inside, backend), promised("rank-killed", clock=0.003, usual=usual), TRIES
    yield "reported while waiting", partial(reported_while_waiting, backend), promised("rank-stops", clock=REPORTED_TIMEOUT_S), 1


def run_row(backend, row):
    name, once, bound, tries = row
    start = time.monotonic()
    try:
        if bound is None:
            once()
        else:
            in_time(lambda: promise("%s: %s" % (backend, name), once=lambda: once().since_fault, tries=tries, **bound))
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return "FAILED %s: %s" % (name, error)
    return "ok %6.2f s  %s" % (time.monotonic() - start, name)


def main():
    backend = sys.argv[1]
    with tempfile.TemporaryDirectory() as gpus:
        probe = subprocess.run([MUSTER, "run", "--nproc-per-node", "1", "--no-python", WORKER, backend, "20000"],
                               env=dict(os.environ, FAKE_GPU_DIR=gpus), capture_output=True, text=True, timeout=60,
                               check=False)
    if probe.returncode != 0:
        print("skipped: the backend %s cannot be used here: %s" % (backend, probe.stderr.strip()[-500:]))
        return 77
    before = shared_memory_files()
    # Most of the time is waiting for deadlines: several at once.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(partial(run_row, backend), rows(backend)))
    print("\n".join(results))
    left = shared_memory_files() - before
    # Other tests that run meanwhile have such names for moments; what a job left behind stays.
    deadline = time.monotonic() + 10
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left &= shared_memory_files()
    if left:
        print("FAILED left in /dev/shm: %s" % left)
    return 1 if left or any(result.startswith("FAILED") for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
