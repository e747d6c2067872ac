#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_ddp.py runs unmodified under torchrun and under `muster run`, and both end with equal parameters."""
import os
import tempfile
import unittest

import interop

PARAMETERS = 11_000_000
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_ddp.py")


class Ddp(unittest.TestCase):
    def train(self, launch, folder, name):
        checkpoint = os.path.join(folder, name + ".pt")
        result = launch(["--nproc-per-node", "2", SCRIPT, "--data", interop.CIFAR10, "--checkpoint", checkpoint, "--images", "32",
                         "--batch-size", "8"], timeout=240)
        digests = [line for line in result.stdout.splitlines() if "parameters " in line]
        self.assertEqual(len(digests), 1, result.stdout)
        self.assertEqual(result.stdout.count("epoch 1: loss"), 2, result.stdout)
        self.assertGreater(os.path.getsize(checkpoint), PARAMETERS * 4)
        return digests[0].split("parameters ")[1]

    def test_both_launchers_end_with_equal_parameters(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.train(interop.muster_run, folder, "muster"), self.train(interop.torchrun, folder, "torchrun"))


if __name__ == "__main__":
    interop.need_torch()
    interop.need_cifar10()
    unittest.main()
