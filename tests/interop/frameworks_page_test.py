#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training of docs/frameworks.md runs as it stands there, and goes on from its checkpoint when a rank fails."""
import os
import re
import subprocess
import tempfile
import unittest

import interop

STEPS = 100
LOOP = "    loss.backward()\n"
FAILURE = """    if step == 55 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(3)
    print(f"rank {dist.get_rank()}, step {step}")
"""


class Page(unittest.TestCase):
    def test_the_training_goes_on_after_a_failure(self):
        with open(os.path.join(interop.ROOT, "docs", "frameworks.md"), encoding="utf-8") as file:
            program = re.search(r"^## DistributedDataParallel\n.*?^```python\n(.*?)^```", file.read(), re.S | re.M).group(1)
        self.assertEqual(program.count(LOOP), 1)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(program.replace(LOOP, FAILURE + LOOP))
            result = interop.muster_run(["--nproc-per-node", "2", "--max-restarts", "1", "train.py"], cwd=folder)
            self.assertIn("round 0 ended: rank 1", result.stderr)
            for rank in (0, 1):
                steps = [int(step) for step in re.findall(rf"^rank {rank}, step (\d+)$", result.stdout, re.M)]
                again = next(place for place, step in enumerate(steps) if place and step <= steps[place - 1])
                self.assertEqual(steps[again], 50, "the second round does not begin with the checkpoint")
                self.assertEqual(steps[-1], STEPS - 1)
            saved = subprocess.run([interop.TORCH_PYTHON, "-c", "import torch; print(torch.load('last.pt')['step'])"], cwd=folder,
                                   capture_output=True, text=True, check=True)
            self.assertEqual(int(saved.stdout), STEPS)


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
