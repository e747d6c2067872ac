# SPDX-License-Identifier: Apache-2.0
"""--ssh-tree where hosts are cheap: the launcher is real, ssh is not. n0 starts n2 and n3, n1 n4."""

import os
import signal
import unittest

from false_hosts import LIMIT_S, FalseHosts, processes_with, wait_until

HOSTS = tuple(f"n{i}" for i in range(5))
READY = "echo begin; "
UNTIL_GO = "while [ ! -e $FALSE_SSH_DIR/go ]; do sleep 0.05; done; "


class Tree(FalseHosts):
    def begin(self, shell, **more):
        self.start(shell, "--ssh-tree", "2", "--login-timeout", str(LIMIT_S), hosts=HOSTS, **more)
        return self

    def ready(self):
        return self.read_until(*(f"[{rank}]: begin" for rank in range(len(HOSTS))))

    def finish(self, code):
        out, _ = self.launcher.communicate(timeout=LIMIT_S)
        self.assertEqual(self.launcher.returncode, code, self.err())
        self.nothing_is_left(LIMIT_S)
        self.assertNotIn("Sanitizer", self.err())
        return out.splitlines()

    def branches(self):
        return [pid for pid, name in processes_with(self.mark).items() if name == "muster:branch"]

    def test_a_flood_of_all_nodes_comes_whole(self):
        self.begin("seq 20000; echo word >&2")
        lines = self.finish(0)
        for rank in range(len(HOSTS)):
            mine = [line[5:] for line in lines if line.startswith(f"[{rank}]: ")]
            self.assertEqual(mine, [str(i) for i in range(1, 20001)])

    def test_what_a_login_says_is_bounded_where_it_is_heard(self):
        self.begin("echo fine", FALSE_SSH_NOISY="n2")
        self.finish(0)
        self.assertRegex(self.err(), r"n2: \d{4} more lines of it were left out on the way here")
        self.assertLess(self.err().count("noise"), 300)

    def test_the_job_goes_on_when_a_branch_is_killed(self):
        self.begin(READY + UNTIL_GO + "seq 2000")
        lines = self.ready()
        os.kill(self.branches()[0], signal.SIGKILL)
        wait_until(lambda: self.err().count("the connection to it was lost; going on") >= 2, "moved links")
        with open(os.path.join(self.folder.name, "go"), "w"):
            pass
        lines += self.finish(0)
        for rank in range(len(HOSTS)):
            mine = [line[5:] for line in lines if line.startswith(f"[{rank}]: ")]
            self.assertEqual(mine, ["begin", *(str(i) for i in range(1, 2001))])

    def test_a_branch_ends_with_the_last_of_its_nodes(self):
        """Whatever becomes of the launcher, which may be gone without a word."""
        self.begin(READY + "exec sleep 1000")
        self.ready()
        os.kill(self.launcher.pid, signal.SIGSTOP)
        wait_until(lambda: not self.branches(), "the end of the branches")
        self.launcher.kill()
        self.nothing_is_left(LIMIT_S)

    def test_an_interrupt_ends_everything(self):
        self.begin(READY + "exec sleep 1000")
        self.ready()
        self.launcher.send_signal(signal.SIGINT)
        self.finish(130)

    def test_an_interrupt_while_hosts_start_ends_everything(self):
        for count in (1, 2):
            self.begin("exec sleep 1000")
            wait_until(lambda: len(self.branches()) >= count, "branches")
            self.launcher.send_signal(signal.SIGINT)
            self.finish(130)

    def test_everything_ends_when_the_launcher_is_killed(self):
        self.begin(READY + "exec sleep 1000")
        self.ready()
        self.launcher.kill()
        self.nothing_is_left(LIMIT_S)


if __name__ == "__main__":
    unittest.main()
