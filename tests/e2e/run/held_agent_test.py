#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent or a store process that the kernel holds, so that not even SIGKILL ends it: its guardian ends the workers and itself all the
same."""
import os
import signal
import subprocess
import sys
import unittest

from interop import MUSTER, clean_environment
from processes import children, lives, wait_until

# Tasks of a frozen group of cgroup v1 take no signal until they are let go on; those of v2 can be killed.
FREEZER = "/sys/fs/cgroup/freezer"
LIMIT_S = 60


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


class HeldAgent(unittest.TestCase):
    def setUp(self):
        self.group = f"{FREEZER}/muster-held-{os.getpid()}"
        try:
            os.mkdir(self.group)
        except OSError as error:
            self.skipTest(f"no group of the freezer of cgroup v1 can be made: {error}")
        self.addCleanup(os.rmdir, self.group)

    def is_frozen(self):
        """The write returns while the state is still FREEZING, as long as a thread has not got there."""
        with open(self.group + "/freezer.state", encoding="ascii") as file:
            return file.read().strip() == "FROZEN"

    def let_go(self, held):
        write(self.group + "/freezer.state", "THAWED")
        wait_until(lambda: not lives(held), "the end of the process that was held", LIMIT_S)

    def job_with_a_held(self, name):
        """Starts a job, and has the kernel hold its process of that name; returns launcher, guardian, worker, and that one."""
        process = subprocess.Popen([MUSTER, "run", "--shutdown-timeout", "0.5", "--no-python", sys.executable, "-c",
                                    "import sys, time; sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(1000)"],
                                   env=clean_environment(), stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, LIMIT_S)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        guardian, = children(process.pid, "muster:guardian")
        held, = children(guardian, name)
        agent, = children(guardian, "muster:agent")
        worker, = children(agent)
        write(self.group + "/cgroup.procs", str(held))
        write(self.group + "/freezer.state", "FROZEN")
        self.addCleanup(self.let_go, held)
        wait_until(self.is_frozen, "the kernel to hold the process", LIMIT_S)
        return process, guardian, worker, held

    def test_its_guardian_goes_on_without_the_agent(self):
        process, guardian, worker, agent = self.job_with_a_held("muster:agent")
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not lives(worker), "the end of the worker", LIMIT_S)
        wait_until(lambda: not lives(guardian), "the end of the guardian", LIMIT_S)
        self.assertTrue(lives(agent))

    def test_its_guardian_goes_on_without_the_store(self):
        process, guardian, worker, store = self.job_with_a_held("muster:store")
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not lives(worker), "the end of the worker", LIMIT_S)
        wait_until(lambda: not lives(guardian), "the end of the guardian", LIMIT_S)
        self.assertTrue(lives(store))


if __name__ == "__main__":
    unittest.main()
