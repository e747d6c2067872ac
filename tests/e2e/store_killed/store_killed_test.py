#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of the store process ends the job: workers stopped, exit code 125, the cause named."""
import os
import signal
import subprocess
import time
import unittest

import interop


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def command_name(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def store_and_workers(launcher):
    """The store process and the workers, once two workers run; looks again until then, 20 s at most."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            ours = [pid for guardian in children(launcher) for pid in children(guardian)]
            below = {pid: children(pid) for pid in ours}
            workers = [pid for pids in below.values() for pid in pids if command_name(pid) == "sleep"]
            if len(ours) == 2 and len(workers) == 2:
                return next(pid for pid in ours if not below[pid]), workers
        except (FileNotFoundError, ProcessLookupError):
            continue  # one ended while we looked
    raise AssertionError("two workers did not start within 20 s")


class StoreKilled(unittest.TestCase):
    def test_the_job_ends_and_says_why(self):
        with subprocess.Popen([interop.MUSTER, "run", "--nproc-per-node", "2", "sleep", "1000"], stderr=subprocess.PIPE,
                              text=True, env=interop.clean_environment()) as job:
            store, workers = store_and_workers(job.pid)
            os.kill(store, signal.SIGKILL)
            _, stderr = job.communicate(timeout=20)
        self.assertEqual(job.returncode, 125)
        self.assertIn("the store process was lost (killed by SIGKILL)", stderr)
        for pid in workers:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), f"worker {pid} is left")


if __name__ == "__main__":
    unittest.main()
