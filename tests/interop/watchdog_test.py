#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's expires() under TORCHELASTIC_ENABLE_FILE_TIMER=1: a worker that does not come out of it is ended and named."""
import json
import os
import tempfile
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_watchdog.py")


class Watchdog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.scratch = os.path.join(self.folder, "tmp")
        os.mkdir(self.scratch)

    def run_worker(self, what, *flags, **variables):
        report = os.path.join(self.folder, "report.json")
        result = interop.muster_run(["--nproc-per-node", "2", "--report", report, *flags, WORKER, what], check=False,
                                    TMPDIR=self.scratch, TORCHELASTIC_ENABLE_FILE_TIMER="1", **variables)
        self.assertEqual(os.listdir(self.scratch), [], "the pipe was left behind")
        with open(report, encoding="utf-8") as file:
            return result, json.load(file)

    def test_the_worker_whose_timer_expired_is_the_root_cause(self):
        """In the first round it was a timer without a name, which has the line that PyTorch gives it. The next has a pipe of its own."""
        result, report = self.run_worker("hang", "--max-restarts", "1")
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertRegex(result.stderr, r"round 0 ended: rank 1 on .*watchdog timer '[^']+\.py#\d+' of rank 1 expired after")
        self.assertEqual(report["nodes"][0]["restarts"], 1)
        self.assertRegex(result.stderr, r"rank 1 on \S+: killed by SIGKILL: the watchdog timer 'evaluation' of rank 1 expired after \d+\.\d s\n")
        self.assertEqual(report["root_cause"]["rank"], 1)
        self.assertIn("the watchdog timer 'evaluation' of rank 1", report["root_cause"]["watchdog"])
        others = [worker["watchdog"] for worker in report["nodes"][0]["workers"] if worker["rank"] == 0]
        self.assertEqual(others, [""])

    def test_nothing_expires_where_all_is_done_in_time(self):
        result, report = self.run_worker("in time")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.split()), ["rank0:3", "rank1:3"])
        self.assertNotIn("watchdog", result.stderr)
        self.assertEqual(report["outcome"], "succeeded")


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
