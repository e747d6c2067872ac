# SPDX-License-Identifier: Apache-2.0
"""A rank for which the others wait step after step is named, until it is as fast as they are. usage: straggler_test.py <worker>"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from interop import MUSTER

WORKER = sys.argv.pop()
LIMIT_S = 90
SLOW = r"rank 2 on \S+ is slow: (\d+) ms of its own a step, (\d+\.\d) times the median of all ranks \((\d+) ms\), in (\d+) of the last (\d+) looks"

LAST = r"rank 2 on \S+ comes last to its collectives: (\d+) ms after the median of all ranks, which have \d+ ms between two of them, in \d+ of the last \d+ looks"


class Stragglers(unittest.TestCase):
    def started(self, folder, *flags, arguments=()):
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "4", *flags, WORKER, os.path.join(folder, "fast"), *arguments],
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait, LIMIT_S)
        self.addCleanup(job.kill)
        watch = threading.Timer(LIMIT_S, job.kill)
        watch.start()
        self.addCleanup(watch.cancel)
        return job

    def line_with(self, job, text):
        return next((line for line in job.stderr if text in line), "nothing was said")

    def status(self, name, *flags):
        return subprocess.run([MUSTER, "status", name, *flags], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    def test_a_slow_rank_is_named_with_how_much_and_how_often_and_taken_back(self):
        name = f"slow-{os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            job = self.started(folder, "--rdzv-id", name, "--report", report)
            line = self.line_with(job, "is slow")
            found = re.search("^muster: warning: agent: (" + SLOW + "; the other ranks wait for it)$", line.rstrip())
            self.assertTrue(found, line)
            own, median, slow_looks, looks = int(found[2]), int(found[4]), int(found[5]), int(found[6])
            # It sleeps 80 ms longer than the others; a busy machine makes all of them slower.
            self.assertGreaterEqual(own - median, 60, line)
            self.assertGreaterEqual(own, 100, line)
            self.assertTrue(8 <= slow_looks <= looks <= 10, line)
            self.assertIn("\n" + found[1] + "\n", self.status(name))
            answer = json.loads(self.status(name, "--json"))
            self.assertEqual((answer["slow"], answer["hang"]["level"]), (found[1], "none"))
            with open(os.path.join(folder, "fast"), "w", encoding="ascii"):
                pass
            self.assertEqual(self.line_with(job, "as fast as"), "muster: warning: agent: rank 2 is as fast as the others again\n")
            self.assertEqual(json.loads(self.status(name, "--json"))["slow"], "")
            job.send_signal(signal.SIGINT)
            rest = job.stderr.read()
            self.assertEqual(job.wait(LIMIT_S), 130, rest)
            self.assertNotIn("\n  slow ", rest)
            with open(report, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["slow"], "")

    def test_of_a_program_that_tells_no_steps_the_last_arriver_is_named_and_taken_back(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.started(folder, arguments=["untold"])
            line = self.line_with(job, "comes last")
            found = re.search("^muster: warning: agent: (" + LAST + "; the other ranks wait for it)$", line.rstrip())
            self.assertTrue(found, line)
            # 80 ms; a busy machine makes all of them slower.
            self.assertGreaterEqual(int(found[2]), 50, line)
            with open(os.path.join(folder, "fast"), "w", encoding="ascii"):
                pass
            self.assertEqual(self.line_with(job, "as fast as"), "muster: warning: agent: rank 2 is as fast as the others again\n")
            job.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(LIMIT_S), 130)

    def test_the_report_of_a_job_that_was_slow_to_its_end_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            job = self.started(folder, "--report", report)
            said = self.line_with(job, "is slow").removeprefix("muster: warning: agent: ").rstrip()
            job.send_signal(signal.SIGINT)
            rest = job.stderr.read()
            self.assertEqual(job.wait(LIMIT_S), 130, rest)
            self.assertIn(f"\n  slow       {said}\n", rest)
            with open(report, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["slow"], said)


if __name__ == "__main__":
    unittest.main()
