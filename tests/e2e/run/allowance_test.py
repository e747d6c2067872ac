# SPDX-License-Identifier: Apache-2.0
"""A job in a control group with a CPU quota takes what the quota leaves."""

import json
import os
import unittest

from control_groups import control_group
from interop import MUSTER, run


class Quota(unittest.TestCase):
    def test_a_quota_below_the_processors_of_the_machine(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("a quota can be no less than one processor")
        with control_group("cpu", cfs_quota_us=60000) as group:
            def started(*arguments):
                return run(group.entering([MUSTER, "run", *arguments]))
            told = started("--nproc-per-node", "cpu", "--dry-run", "true")
            job = json.loads(told.stdout)
            self.assertEqual(job["agent"]["workers"], 1)
            self.assertEqual(job["allowance"]["processors"], 1)
            self.assertAlmostEqual(job["allowance"]["cpu_quota"], 0.6)
            self.assertIn(f"1 of {len(os.sched_getaffinity(0))} processors (quota of cgroup '", told.stderr)
            self.assertIn(group.name, told.stderr)
            threads = ["--no-python", "sh", "-c", "echo ${OMP_NUM_THREADS-unset}"]
            self.assertEqual(started(*threads).stdout, "1\n")
            self.assertEqual(started("--export", "OMP_NUM_THREADS=7", *threads).stdout, "7\n")
            self.assertEqual(run([MUSTER, "run", *threads]).stdout, "unset\n")


if __name__ == "__main__":
    unittest.main()
