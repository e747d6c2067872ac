# SPDX-License-Identifier: Apache-2.0
"""A rank that the others wait for is named when no rank has moved for --hang-timeout. usage: hang_test.py <worker>"""
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

from interop import MUSTER

WORKER = sys.argv.pop()
LIMIT_S = 60


def stopped_below(pid):
    """The processes below this one that are stopped."""
    found, parents = [], {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry)] = int(fields[1])
        if fields[0] == "T":
            found.append(int(entry))

    def is_below(process):
        while process in parents and process != pid:
            process = parents[process]
        return process == pid

    return [process for process in found if is_below(process)]


class Hangs(unittest.TestCase):
    def started(self, fault, *flags):
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "3", *flags, WORKER], stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True, env={**os.environ, "MUSTER_FAULT": fault, "MUSTER_REPORT_AFTER": "0"})
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait, LIMIT_S)
        self.addCleanup(job.kill)
        watch = threading.Timer(LIMIT_S, job.kill)
        watch.start()
        self.addCleanup(watch.cancel)
        return job

    def test_a_stopped_rank_is_named_and_the_job_goes_on_with_it(self):
        job = self.started("stop@1:all_reduce:2", "--hang-timeout", "1")
        line = next((line for line in job.stderr if "hung" in line), "nothing was said")
        self.assertRegex(line, r"^muster: warning: agent: rank 1 on \S+ is hung: it is stopped by a signal since \d+ s; "
                               r"ranks 0, 2 wait for all_reduce #2 of group 'world' since \d+ s$")
        (stopped,) = stopped_below(job.pid)
        os.kill(stopped, signal.SIGCONT)
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 0, rest)
        self.assertIsNone(re.search("is hung|may be hung", rest), rest)


if __name__ == "__main__":
    unittest.main()
