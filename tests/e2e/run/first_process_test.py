# SPDX-License-Identifier: Apache-2.0
"""As the first process of a container muster reaps what others leave to it, and still knows how its own children ended."""

import os
import subprocess
import unittest

import processes
from interop import MUSTER, clean_environment, skip

LIMIT_S = 60
ORPHANS = 20


def zombies(pid):
    return [child for child in processes.children(pid) if processes.state(child) == "Z"]


class FirstProcess(unittest.TestCase):
    def start(self, *arguments):
        """`muster` as the first process of new namespaces: unshare and its pid, as it is seen from here."""
        container = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", MUSTER, *arguments],
                                     env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)
        self.addCleanup(container.stdin.close)
        self.addCleanup(container.stdout.close)
        self.addCleanup(container.stderr.close)
        self.addCleanup(container.wait, LIMIT_S)
        self.addCleanup(container.kill)
        muster = processes.wait_until(lambda: processes.children(container.pid, "muster"), "muster to run", LIMIT_S)
        return container, muster[0]

    def leave_orphans(self, pid):
        """Processes that enter from outside, and whose children outlive them."""
        for _ in range(ORPHANS):
            subprocess.run(["nsenter", "--target", str(pid), "--pid", "--mount", "sh", "-c", "sleep 0.01 & exit 0"], check=True,
                           timeout=LIMIT_S)
        # One that has not come to its "sleep" yet has the shell's name; of muster's own children none has either.
        processes.wait_until(lambda: not any(processes.name_of(child) in ("sh", "sleep") for child in processes.children(pid)) and not zombies(pid),
                             "the orphans to be reaped", LIMIT_S)

    def test_a_job(self):
        container, pid = self.start("run", "--nproc-per-node", "2", "--no-python", "sh", "-c", "read line; exit 7")
        processes.wait_until(lambda: len(processes.tree(pid)) >= 6, "the workers to run", LIMIT_S)
        self.leave_orphans(pid)
        container.stdin.close()  # ends both workers
        self.assertEqual(container.wait(LIMIT_S), 7)

    def test_a_daemon(self):
        container, pid = self.start("rendezvous", "--listen", "127.0.0.1:0")
        self.assertIn("endpoint", container.stdout.readline())
        self.leave_orphans(pid)


if __name__ == "__main__":
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True).returncode != 0:
        skip("no namespace of processes can be made here")
    unittest.main()
