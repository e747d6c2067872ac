# SPDX-License-Identifier: Apache-2.0
"""Ranks of mpirun, which ends the job when one is lost: before that we say which it was.

usage: mpi_test.py mpi
"""
import os
import re
import shutil
import subprocess
import sys

from interop import check

WORKER = os.environ["MUSTER_FAULT_WORKER"]
RANKS = 3
TIMEOUT_S = 8
# What waits longer is reported: all others must have come to the call by then, and the deadline must be far.
REPORT_MS, REPORTED_TIMEOUT_S = 3000, 16


def mpirun(fault, backend="mpi", timeout_s=TIMEOUT_S):
    """Exit code and all output."""
    command = ["mpirun", "--oversubscribe", "-n", str(RANKS), WORKER, backend, str(timeout_s * 1000), str(REPORT_MS)]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    job = subprocess.Popen(command, env=dict(os.environ, MUSTER_FAULT=fault), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    try:
        output = job.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        # Open MPI's mpirun sometimes misses the end of its last ranks, which are zombies then.
        job.terminate()
        try:
            output = job.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            job.kill()
            output = job.communicate(timeout=10)[0]
    return job.returncode, output


def killed():
    for operation in ("barrier", "all_reduce:2", "split"):
        # Rank 0 says it before mpirun ends it, if a busy machine lets it.
        for _ in range(5):
            code, output = mpirun("kill@1:" + operation)
            check(code != 0, "mpirun took the death for a success", output)
            said = re.search(r"rank 1 \(process \d+ on .*\) has died, ", output)
            if said:
                break
        check(said, "no report of rank 1's death", output)
        print("ok killed in", operation)


def stopped():
    code, output = mpirun("stop@1:all_reduce:2", timeout_s=REPORTED_TIMEOUT_S)
    check(code != 0, "mpirun took it for a success", output)
    check(re.search(r"fault_worker: .*rank 1\b", output), "no error at the deadline", output)
    check(re.search(r"warning: rank 1 never entered all_reduce #3 .*is stopped by a signal", output),
          "no report before the deadline", output)
    print("ok stopped")


def succeeded():
    for _ in range(3):
        code, output = mpirun("delay:100@1:all_reduce:2", timeout_s=30)
        if code == 0:  # not ended by us because mpirun missed the end of its ranks
            break
    check(code == 0 and output.count("done") == RANKS, "a delay is no failure", output)
    check("has died" not in output, "an end in order is taken for a death", output)
    print("ok delayed")


def main():
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun (Debian: openmpi-bin)")
        return 77
    killed()
    stopped()
    succeeded()
    return 0


if __name__ == "__main__":
    sys.exit(main())
