#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's PyTorch 1.13 speaks the store's dialect without a handshake; Gloo, DDP and a restart work with it."""
import os
import subprocess
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_all_reduce.py")
PYTHON = "/usr/bin/python3"


class Torch113(unittest.TestCase):
    def test_all_reduce_and_ddp(self):
        result = interop.muster_run(["--nproc-per-node", "2", WORKER], python=PYTHON)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2 round 0: 3 3", result.stdout)

    def test_restart(self):
        result = interop.muster_run(["--nproc-per-node", "2", "--max-restarts", "1", "--shutdown-timeout", "5", WORKER,
                                     "--fail-rank", "0"], python=PYTHON)
        self.assertEqual(result.stdout.count(" of 2 round 1: 3 3"), 2, result.stdout + result.stderr)


if __name__ == "__main__":
    probe = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        interop.skip(f"{PYTHON} has no torch (Debian's package python3-torch)")
    print("torch", probe.stdout.strip())
    unittest.main()
