#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker fails in round 0 after Gloo has used the store; round 1 starts on an empty store and succeeds.

torchrun keeps its store across restarts, so round 1 meets round 0's addresses there and hangs or fails.
"""
import os
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_all_reduce.py")


class Restart(unittest.TestCase):
    def test_second_round_succeeds(self):
        result = interop.muster_run(["--nproc-per-node", "2", "--max-restarts", "1", "--shutdown-timeout", "5", WORKER,
                                     "--fail-rank", "1"])
        finished = sorted(line for line in result.stdout.splitlines() if " round 1: 3 3" in line)
        self.assertEqual(len(finished), 2, result.stdout + result.stderr)
        self.assertNotIn(" round 0: 3 3", result.stdout)

    def test_without_restarts_the_worker_decides_the_exit_code(self):
        result = interop.muster_run(["--nproc-per-node", "2", "--shutdown-timeout", "5", WORKER, "--fail-rank", "1"],
                                    check=False)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("exit code 3", result.stderr)


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
