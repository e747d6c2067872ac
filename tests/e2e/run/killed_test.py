# SPDX-License-Identifier: Apache-2.0
"""Where workers were that had to be killed stands in the report, as text and as JSON: by rank, file and line."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import children, read, wait_until

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60

# Rank 1 fails once rank 0 hangs; rank 0 ignores SIGTERM and SIGINT.
HANGS = """import os, signal, sys, threading

lock = threading.Lock()


def wait_for_turn():
    open(sys.argv[1], "w").close()
    lock.acquire()  # here


def main():
    if os.environ["RANK"] == "1":
        while not os.path.exists(sys.argv[1]):
            pass
        sys.exit(3 if sys.argv[2] == "fail" else 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    lock.acquire()
    wait_for_turn()


main()
"""
LINE = HANGS[:HANGS.index("# here")].count("\n") + 1


def is_pending(pid, number):
    pending = int(re.search(r"ShdPnd:\s+(\w+)", read(pid, "status") or "ShdPnd: 0")[1], 16)
    return bool(pending >> (number - 1) & 1)


class Killed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.script = os.path.join(self.folder, "hangs.py")
        with open(self.script, "w") as file:
            file.write(HANGS)
        self.hangs = os.path.join(self.folder, "hangs")

    def start(self, what, flags=(), wrap=None):
        argv = [sys.executable, self.script, self.hangs, what]
        if wrap:
            argv = ["sh", "-c", wrap % " ".join(argv)]
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "1", "--report", self.report(),
                                *flags, "--no-python", *argv],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.kill)
        return job

    def report(self):
        return os.path.join(self.folder, "report.json")

    def pictures(self):
        """What the report has of rank 0 before it was killed."""
        with open(self.report()) as file:
            report = json.load(file)
        workers = {worker["rank"]: worker for node in report["nodes"] for worker in node["workers"]}
        ended = workers[1]["status"]["value"] != signal.SIGKILL
        self.assertEqual(workers[1]["before_kill"] == [], ended, workers[1])
        return workers[0]["before_kill"]

    def names_place(self, err):
        place = re.escape("%s:%d wait_for_turn" % (self.script, LINE))
        self.assertRegex(err, r"  before KILL\n    \| rank 0: %s <- hangs.py:\d+ main <- hangs.py:\d+ <module>\n" % place)
        pictures = self.pictures()
        self.assertEqual(len(pictures), 1, pictures)
        stacks = pictures[0]["stacks"]
        self.assertEqual(stacks["error"], "")
        self.assertEqual(stacks["python"], "%d.%d.%d" % sys.version_info[:3])
        main = [thread for thread in stacks["threads"] if thread["is_main"]][0]
        self.assertEqual(main["tid"], stacks["pid"])
        self.assertEqual(main["frames"][0], {"file": self.script, "line": LINE, "function": "wait_for_turn"})

    def test_after_the_failure_of_another_rank(self):
        _, err = self.start("fail").communicate(timeout=LIMIT_S)
        self.names_place(err)

    def test_below_a_shell(self):
        job = self.start("fail", wrap="%s; exit $?")
        _, err = job.communicate(timeout=LIMIT_S)
        self.names_place(err)

    def test_at_the_end_of_the_time(self):
        job = self.start("stay", flags=("--timeout", "10"))
        _, err = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 124, err)
        self.names_place(err)

    def test_at_a_second_ctrl_c(self):
        job = self.start("stay", flags=("--shutdown-timeout", "25"))
        wait_until(lambda: os.path.exists(self.hangs), "rank 0 hangs")
        (guardian,) = children(job.pid, "muster:guardian")
        (agent,) = children(guardian, "muster:agent")
        wait_until(lambda: len(children(agent)) == 1, "rank 1 has ended")
        for _ in range(2):  # one that comes before the other was taken would count for one
            job.send_signal(signal.SIGINT)
            wait_until(lambda: not is_pending(job.pid, signal.SIGINT), "the signal is taken")
        _, err = job.communicate(timeout=LIMIT_S)
        self.names_place(err)

    def test_a_program_without_python_is_named_with_its_state(self):
        trap = ("trap '' TERM; if [ $RANK = 1 ]; then until [ -s %s ] && grep -q sleep /proc/$(cat %s)/comm; do sleep 0.05; done; exit 3; fi; "
                "echo $$ > %s; exec sleep 600")
        job = subprocess.run([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "0.5", "--report", self.report(), "--no-python",
                              "sh", "-c", trap % (self.hangs, self.hangs, self.hangs)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
        self.assertRegex(job.stderr, r"  before KILL\n    \| rank 0: sleep is sleeping.*; no Python stacks: no Python\n")
        self.assertEqual([picture["name"] for picture in self.pictures()], ["sleep"])

    def test_workers_that_end_by_themselves_have_none(self):
        job = subprocess.run([MUSTER, "run", "--nproc-per-node", "2", "--report", self.report(), "--no-python", "sh", "-c",
                              "[ $RANK = 0 ] && exec sleep 600; exit 3"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
        self.assertNotIn("before KILL", job.stderr)
        self.assertEqual(self.pictures(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
