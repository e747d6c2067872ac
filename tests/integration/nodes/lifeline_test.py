# SPDX-License-Identifier: Apache-2.0
"""What becomes of a job of two nodes whose ssh is cut or says too much, or whose launcher is killed. The launcher is real, ssh is
not: all hosts are this machine."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

from node_link import LIMIT_S, MUSTER, processes_with, wait_until

FALSE_SSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "false_ssh.py")


class Lifeline(unittest.TestCase):
    """A case starts one job, or several one after the other."""

    def start(self, shell, **more):
        """One worker on each host, a shell. `more`: environment."""
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        wrapper = os.path.join(self.folder.name, "ssh")
        with open(wrapper, "w") as file:
            file.write('#!/bin/sh\nexec %s %s "$@"\n' % (sys.executable, FALSE_SSH))
        os.chmod(wrapper, 0o755)
        environment = dict(os.environ, MUSTER_TEST_MARK=self.mark, FALSE_SSH_DIR=self.folder.name, **more)
        command = [MUSTER, "run", "-H", "n0:1,n1:1", "--interface", "lo", "--ssh-command", wrapper, "--no-python", "sh", "-c", shell]
        self.errors = os.path.join(self.folder.name, "errors")
        with open(self.errors, "w") as errors:
            self.launcher = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=errors, text=True)
        self.addCleanup(self.end)

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

    def test_the_job_goes_on_when_ssh_is_cut(self):
        for hosts in (("n1",), ("n0", "n1")):
            self.start("echo begin; read line < $FALSE_SSH_DIR/go.$RANK; echo middle; seq 2000; echo end")
            for rank in (0, 1):
                os.mkfifo(os.path.join(self.folder.name, "go.%d" % rank))
            self.cut_and_check(hosts)

    def cut_and_check(self, hosts):
        lines = self.read_until("[0]: begin", "[1]: begin")
        self.cut(*hosts)
        self.moved(*hosts)
        for rank in (0, 1):
            self.let_go(rank)
        out, _ = self.launcher.communicate(timeout=LIMIT_S)
        self.assertEqual(self.launcher.returncode, 0, self.err())
        lines += out.splitlines()
        for rank in (0, 1):
            mine = [line[5:] for line in lines if line.startswith("[%d]: " % rank)]
            self.assertEqual(mine, ["begin", "middle", *(str(i) for i in range(1, 2001)), "end"])
        self.nothing_is_left(10)

    def let_go(self, rank):
        """The worker may have ended, and then nobody would ever read."""
        def opened():
            try:
                return os.open(os.path.join(self.folder.name, "go.%d" % rank), os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                self.assertIsNone(self.launcher.poll(), self.err())
                return None
        go = wait_until(opened, "rank %d to read" % rank)
        os.write(go, b"go\n")
        os.close(go)

    def test_a_failure_is_reported_though_ssh_is_cut(self):
        self.start('echo begin; [ $RANK = 1 ] || exec sleep 60; read line < $FALSE_SSH_DIR/go.1; echo the cause >&2; exit 5')
        os.mkfifo(os.path.join(self.folder.name, "go.1"))
        self.read_until("[0]: begin", "[1]: begin")
        self.cut("n1")
        self.moved("n1")
        self.let_go(1)
        self.launcher.communicate(timeout=LIMIT_S)
        err = self.err()
        self.assertEqual(self.launcher.returncode, 5, err)
        self.assertIn("rank 1", err)
        self.assertIn("the cause", err)
        self.nothing_is_left(10)

    def test_what_a_login_says_is_bounded(self):
        self.start("echo fine", FALSE_SSH_NOISY="n1")
        self.launcher.communicate(timeout=LIMIT_S)
        self.assertEqual(self.launcher.returncode, 0, self.err())
        self.assertRegex(self.err(), r"n1: \d{4} more lines of it were left out \(100 in 10 s are shown\)")
        self.assertLess(self.err().count("noise"), 300)
        self.nothing_is_left(10)

    def test_everything_ends_when_the_launcher_is_killed(self):
        self.start("echo begin; exec sleep 60")
        self.read_until("[0]: begin", "[1]: begin")
        self.launcher.kill()
        self.nothing_is_left(10)

    def test_everything_ends_when_the_launcher_is_killed_after_a_cut(self):
        self.start("echo begin; exec sleep 60")
        self.read_until("[0]: begin", "[1]: begin")
        self.cut("n0", "n1")
        self.moved("n0", "n1")
        self.launcher.kill()
        self.nothing_is_left(10)


if __name__ == "__main__":
    unittest.main()
