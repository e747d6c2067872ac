# SPDX-License-Identifier: Apache-2.0
"""Ranks that no agent watches: they hold one another's status, and name who is lost.

usage: no_agent_test.py <backend>
"""
import concurrent.futures
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

from interop import Rendezvous, check
from promise import CLOCK, in_time, kept, promised

WORKER = os.environ["MUSTER_FAULT_WORKER"]
RANKS = 3
TIMEOUT_S = 8
# What it takes the others to end after a rank was killed; Gloo's threads and sockets take longer to end.
USUAL_S = {"shm": 0.02, "gloo": 0.03}
# What waits longer is reported: all others must have come to the call by then, and the deadline must be far.
REPORT_MS, REPORTED_TIMEOUT_S = 3000, 16


def run(backend, fault, run_id, store, report_ms=15000, timeout_s=TIMEOUT_S):
    """Starts the ranks as torchrun would; returns {rank: (stderr, exit code)} and the seconds until they had ended since rank 1
    reached the call in which it fails."""
    workers = []
    for rank in range(RANKS):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR=store.host, MASTER_PORT=store.port,
                           TORCHELASTIC_RUN_ID=run_id, TORCHELASTIC_USE_AGENT_STORE="True", MUSTER_FAULT=fault)
        environment.pop("MUSTER_STATUS", None)
        workers.append(subprocess.Popen([WORKER, backend, str(timeout_s * 1000), str(report_ms)], env=environment,
                                        stdout=subprocess.PIPE if rank == 1 else subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True))
    results, said = {}, ""
    try:
        # A rank that is stopped does not end by itself.
        for rank in (0, 2) if fault.startswith("stop") else range(RANKS):
            out, error = workers[rank].communicate(timeout=60)
            said = out or said
            results[rank] = (error, workers[rank].returncode)
        end = time.monotonic()
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
        if 1 not in results:
            said, error = workers[1].communicate()
            results[1] = (error, workers[1].returncode)
        for worker in workers:
            worker.wait()
            worker.stderr.close()
    return results, end - float(re.findall(r"reaches \w+ at (\S+)", said)[-1])


def run_killed(backend, store, fault, run_id):
    """Errors of the ranks that are left; each names rank 1."""
    results, seconds = run(backend, fault, run_id, store)
    check(results[1][1] == -signal.SIGKILL, "rank 1 was not killed", str(results))
    for rank in (0, 2):
        error, code = results[rank]
        check(code == 1 and re.search(r"rank 1\b", error), "rank %d does not name rank 1" % rank, error)
    return [results[rank][0] for rank in (0, 2)], seconds


def killed(backend, store):
    # In init it may die before the others watch it; they then wait for their deadline.
    run_killed(backend, store, "kill@1:init", "killed-init")
    print("ok killed in init")
    for operation in ("barrier", "all_reduce:2"):
        runs = itertools.count()
        in_time(partial(killed_in, backend, store, operation, runs))
        print("ok killed in", operation)


def killed_in(backend, store, operation, runs):
    """`runs` gives each run a number of its own."""
    took = []
    for number in itertools.islice(runs, 16):
        errors, seconds = run_killed(backend, store, "kill@1:" + operation, "killed-%s-%d" % (operation, number))
        # The barrier follows init at once: a rank that a busy machine has left in init says so, and waits as in init.
        if all(operation.split(":")[0] in error for error in errors):
            took.append(seconds)
        if len(took) == 3:
            break
    check(len(took) == 3, "the others were hardly ever in " + operation, str(took))
    kept("%s: without an agent: killed in %s" % (backend, operation), took=took,
         **promised("no-agent-rank-dies", usual=USUAL_S[backend]))


def killed_in_split(backend, store):
    # A split begins with an all_gather of the parent: rank 1 dies when the others are through with it, too. Where
    # a busy machine left one of them in it for all that time, its connection broke first, which says nothing here.
    for attempt in range(5):
        errors, _ = run_killed(backend, store, "delay:500@1:split,kill@1:split", "killed-split-%d" % attempt)
        if not any(re.search(r"was in (call \d+: )?all_gather", error) for error in errors):
            break
    check(any(re.search(r"rank 1 \(process \d+ on .*\) has died, .* joined the group 'world/1\.0'", error)
              for error in errors), "nobody knew that it died", str(errors))
    print("ok killed in split")


def stopped(backend, store):
    runs = itertools.count()
    in_time(lambda: stopped_once(backend, store, "stopped-%d" % next(runs)))


def stopped_once(backend, store, run_id):
    results, seconds = run(backend, "stop@1:all_reduce:2", run_id, store, REPORT_MS, REPORTED_TIMEOUT_S)
    for rank in (0, 2):
        error, code = results[rank]
        check(code == 1 and re.search(r"rank 1\b", error), "rank %d does not name rank 1" % rank, error)
    kept("%s: without an agent: stopped" % backend, took=[seconds], one_try=CLOCK,
         **promised("no-agent-rank-stops", clock=REPORTED_TIMEOUT_S))
    both = results[0][0] + results[2][0]
    check(re.search(r"warning: rank 1 never entered all_reduce #3 .*; ranks 0, 2 wait since .*Rank 1 \(process \d+\) is "
                    r"stopped", both), "no report with the state of rank 1", both)
    check(both.count("is stopped by a signal") == 1, "the report comes more than once", both)
    print("ok stopped, %.1f s" % seconds)


def succeeded(backend, store):
    results, _ = run(backend, "delay:100@1:all_reduce:2", "succeeded", store)
    check(all(code == 0 for _, code in results.values()), "a delay is no failure", str(results))
    print("ok delayed")


def main():
    backend = sys.argv[1]
    probe = subprocess.run([WORKER, backend, "10000"], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        print("skipped: the backend %s cannot be used here: %s" % (backend, probe.stderr.strip()[-500:]))
        return 77
    # Most of the time is waiting for deadlines: all at once.
    with Rendezvous() as store, concurrent.futures.ThreadPoolExecutor(4) as pool:
        for case in [pool.submit(each, backend, store) for each in (stopped, killed, killed_in_split, succeeded)]:
            case.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
