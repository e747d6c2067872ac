# SPDX-License-Identifier: Apache-2.0
"""What becomes of a job of two nodes whose ssh is cut, or whose launcher is killed. The launcher is real, ssh is not."""

import os
import unittest

from false_hosts import LIMIT_S, FalseHosts, wait_until


class Lifeline(FalseHosts):
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
