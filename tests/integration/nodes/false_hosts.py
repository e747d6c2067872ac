# SPDX-License-Identifier: Apache-2.0
"""What tests of a real launcher and a false ssh share: all hosts are this machine."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

from node_link import LIMIT_S, MUSTER, processes_with, wait_until

FALSE_SSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "false_ssh.py")


class FalseHosts(unittest.TestCase):
    """A case starts one job, or several one after the other."""

    def start(self, shell, *flags, hosts=("n0", "n1"), **more):
        """One worker on each host, a shell. `more`: environment."""
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        wrapper = os.path.join(self.folder.name, "ssh")
        with open(wrapper, "w") as file:
            file.write('#!/bin/sh\nexec %s %s "$@"\n' % (sys.executable, FALSE_SSH))
        os.chmod(wrapper, 0o755)
        environment = dict(os.environ, MUSTER_TEST_MARK=self.mark, FALSE_SSH_DIR=self.folder.name, **more)
        command = [MUSTER, "run", "-H", ",".join(f"{host}:1" for host in hosts), "--interface", "lo", "--ssh-command", wrapper,
                   *flags, "--no-python", "sh", "-c", shell]
        self.errors = os.path.join(self.folder.name, "errors")
        with open(self.errors, "w") as errors:
            self.launcher = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=errors, text=True)
        self.addCleanup(self.end)
        return self.launcher

    def end(self):
        self.launcher.kill()
        for pid in processes_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.launcher.communicate(timeout=LIMIT_S)

    def err(self):
        with open(self.errors) as errors:
            return errors.read()

    def moved(self, *hosts):
        """Waits until their links lead through the coordinator."""
        try:
            wait_until(lambda: all(f"{host}: the connection to it was lost; going on" in self.err() for host in hosts), "moved links")
        except AssertionError:
            self.fail(f"not all links of {hosts} moved: {self.err()}; exit code {self.launcher.poll()}")

    def cut(self, *hosts):
        for host in hosts:
            with open(os.path.join(self.folder.name, host)) as file:
                os.kill(int(file.read()), signal.SIGKILL)

    def read_until(self, *texts):
        """Lines of stdout until each of `texts` was one of them."""
        lines = []
        while not set(texts) <= set(lines):
            line = self.launcher.stdout.readline()
            self.assertTrue(line, (lines, texts))
            lines.append(line.rstrip("\n"))
        return lines

    def nothing_is_left(self, seconds):
        try:
            wait_until(lambda: not processes_with(self.mark), "the end", seconds)
        except AssertionError:
            self.fail("left: %r" % processes_with(self.mark))


__all__ = ["FalseHosts", "LIMIT_S", "processes_with", "wait_until"]
