#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of one node, made for this test: the ranks of srun meet, a batch script's own process is a world of one."""
import os
import time
import unittest

from hosts import Hosts, need_hosts
from launchers_test import LIMIT_S, PROBE, Launchers, parse_answers
from slurm_cluster import FOLDER, SlurmCluster, need_slurm


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(Hosts(1, keep=[os.path.dirname(PROBE)]))
        cls.slurm = SlurmCluster(cls.hosts)
        cls.slurm.start()

    def test_the_tasks_of_a_step_meet(self):
        step = self.slurm.run(["srun", "-n", "3", "--overcommit", PROBE], timeout=LIMIT_S)
        ranks = parse_answers(step)
        Launchers.check_world(self, ranks, 3, "srun")
        self.assertTrue(ranks[0]["run_id"].startswith("slurm-"), ranks[0])
        left = [name for name in os.listdir(self.hosts.path("n00", "/tmp")) if name.startswith("muster-")]
        self.assertEqual(left, [])

    def test_two_steps_at_once_do_not_meet(self):
        steps = [self.slurm.popen(["srun", "-n", "2", PROBE]) for _ in range(2)]
        for step in steps:
            output, errors = step.communicate(timeout=LIMIT_S)
            self.assertEqual((step.returncode, output.count('"sum":3')), (0, 2), output + errors)

    def test_a_batch_script_is_one_process(self):
        script, output = (f"{FOLDER}/batch.{end}" for end in ("sh", "out"))
        self.hosts.write("login", script, f"#!/bin/sh\nenv | grep ^SLURM_PROCID\nexec {PROBE}\n")
        done = self.slurm.run(["sbatch", "-n", "2", f"--output={output}", script], timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        end = time.monotonic() + LIMIT_S
        text = ""
        while "{" not in text:
            self.assertLess(time.monotonic(), end, text + self.slurm.logs())
            time.sleep(0.05)
            if os.path.exists(self.hosts.path("login", output)):
                text = self.hosts.read("login", output)
        self.assertIn("SLURM_PROCID=0", text)
        self.assertIn('"launcher":"none"', text)
        self.assertIn('"size":1', text)


if __name__ == "__main__":
    need_slurm()
    need_hosts()
    unittest.main()
