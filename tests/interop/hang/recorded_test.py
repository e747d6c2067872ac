#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verdict on a hang uses what PyTorch's flight recorders tell while the job hangs: Gloo's through the control plane of real programs,
NCCL's through its pipe (a program that plays its part)."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import interop
from watched_job import HUNG, Job, place_pattern

FOLDER = os.path.dirname(os.path.abspath(__file__))
ANALYZE = os.path.join(FOLDER, "..", "flight", "analyze.py")
RANKS, TIMEOUT_S, PATIENCE_S = 3, 5, 60
# NCCL's recorders are asked 6 to 8 s after the last movement (agent/health_watch.cpp), and their dumps are seen at the latest 2 s later.
PIPE_TIMEOUT_S = 12
NEVER_ENTERED = r"; by the flight recorder rank 1 never entered all_reduce (\d+) of group default_pg; ranks 0, 2 wait in it"


class Recorded(unittest.TestCase):
    def hang(self, script, *flags, ranks=RANKS, timeout_s=TIMEOUT_S, pattern="flight recorder"):
        """Runs the job until the line that has the pattern; returns that line and the report."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            with Job(script, [], "--hang-timeout", str(timeout_s), "--report", report, *flags, ranks=ranks) as job:
                job.ready()
                told = job.wait_for(pattern, timeout_s + PATIENCE_S)
                self.assertTrue(told, job.shown())
                self.assertTrue(HUNG.search(told[0][1]), told)
            with open(report, encoding="utf-8") as file:
                return told[0][1], json.load(file)

    def test_gloo_through_the_control_plane(self):
        line, report = self.hang("recorded_programs.py", "--export", "MUSTER_CONTROL_PLANE=1")
        where = place_pattern("recorded_programs.py", "other_group: odd")
        self.assertRegex(line, rf"rank 1 on \S+ \({where}\) is hung: it waits for all_reduce")
        self.assertEqual(re.search(NEVER_ENTERED, line)[1], "2", line)
        self.assertEqual(report["hang"]["text"], line[line.index("rank 1 "):])
        self.assertEqual(report["flight_record"], ["rank 1 never entered all_reduce 2 of group default_pg; ranks 0, 2 wait in it"])

    def test_nccl_through_the_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            line, report = self.hang("recorder.py", "--export", f"TORCH_FR_DUMP_TEMP_FILE={folder}/rank", "--export",
                                     f"TORCH_NCCL_DEBUG_INFO_PIPE_FILE={folder}/pipe", timeout_s=PIPE_TIMEOUT_S)
            self.assertRegex(line, r"rank 1 on \S+ \(.*\) may be hung: ")
            self.assertEqual(re.search(NEVER_ENTERED, line)[1], "41", line)
            self.assertEqual(report["flight_record"], ["rank 1 never entered all_reduce 41 of group default_pg; ranks 0, 2 wait in it"])
            # What it writes is what PyTorch's own analyzer reads, and finds the same in.
            for name in os.listdir(folder):
                if name.endswith(".pipe"):
                    os.unlink(os.path.join(folder, name))
            theirs = subprocess.run([interop.TORCH_PYTHON, ANALYZE, folder], capture_output=True, text=True, timeout=120, check=True)
            found, = json.loads(theirs.stdout.splitlines()[-1])
            self.assertEqual((found["sequence"], found["missing"]), (41, [1]))


if __name__ == "__main__":
    interop.need_torch()
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
