#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker fails in round 0 after Gloo and DDP have used the store; round 1 starts on an empty store and succeeds.

torchrun keeps its store across restarts, so round 1 meets round 0's addresses there and hangs or fails.

usage: restart_test.py [old]    old: with Debian's PyTorch 1.13, which speaks the store's dialect without a handshake
"""
import os
import subprocess
import sys
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_all_reduce.py")
OLD = sys.argv[1:] == ["old"]
PYTHON = "/usr/bin/python3" if OLD else interop.TORCH_PYTHON


class Restart(unittest.TestCase):
    def test_second_round_succeeds(self):
        result = interop.muster_run(["--nproc-per-node", "2", "--max-restarts", "1", "--shutdown-timeout", "5", WORKER, "--fail-rank", "1"],
                                    python=PYTHON)
        for rank in range(2):
            self.assertEqual(result.stdout.count(f"rank {rank} of 2 round 1: 3 3"), 1, result.stdout + result.stderr)
        self.assertNotIn(" round 0: 3 3", result.stdout)


if __name__ == "__main__":
    if not OLD:
        interop.need_torch()
    elif subprocess.run([PYTHON, "-c", "import torch; print('torch', torch.__version__)"], check=False).returncode != 0:
        interop.skip(f"{PYTHON} has no torch (Debian's package python3-torch)")
    unittest.main(argv=sys.argv[:1])
