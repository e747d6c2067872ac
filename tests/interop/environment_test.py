#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker finds the same environment variables under torchrun and under `muster run`."""
import json
import os
import tempfile
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_environment.py")

# Differences that are meant, each with its reason.
OURS_ONLY = {
    "MUSTER_RUN_ID": "tells the worker SDK that `muster run` started it",
    "MUSTER_JOB_MARK": "by which the next job on a host finds what a killed one left there",
    "MUSTER_LOCAL_ADDR": "the address at which other hosts reach a worker, for our SDK",
    "MUSTER_STOP_FILE": "appears when the workers of this node are told to end",
    "MUSTER_STATUS": "where a program that uses our SDK writes which call it is in; others have no use for it",
}
THEIRS_ONLY = {
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "torchrun sets it in its own environment to tell its Python agent; our agent reads the flag",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "torchrun's 1 aborts NCCL before PyTorch has dumped what hung; without it PyTorch takes 3",
}
# Present under both, and different in every run or by design.
OTHER_VALUE = {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RUN_ID", "_", "SHLVL", "PWD", "OLDPWD",
               "PYTHON_EXEC"}


def assert_same(test, ours, theirs, other_value=OTHER_VALUE):
    test.assertEqual(sorted(ours.keys() - theirs.keys() - OURS_ONLY.keys()), [])
    test.assertEqual(sorted(theirs.keys() - ours.keys() - THEIRS_ONLY.keys()), [])
    same = (ours.keys() & theirs.keys()) - other_value
    test.assertEqual({name: ours[name] for name in same}, {name: theirs[name] for name in same})


def read_environments(folder, workers):
    """What worker_environment.py has written there, by rank."""
    environments = []
    for rank in range(workers):
        with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as file:
            environments.append(json.load(file))
    return environments


class Environment(unittest.TestCase):
    def collect(self, launch, **extra):
        with tempfile.TemporaryDirectory() as folder:
            launch(["--nproc-per-node", "2", WORKER, folder], PYTHON_EXEC=interop.TORCH_PYTHON, **extra)
            return read_environments(folder, 2)

    def compare(self, **extra):
        def muster_run(arguments, **keywords):
            return interop.run([interop.MUSTER, "run", *arguments], **keywords)
        for ours, theirs in zip(self.collect(muster_run, **extra), self.collect(interop.torchrun, **extra)):
            assert_same(self, ours, theirs)
            self.assertTrue({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE"} <= ours.keys())

    def test_same_variables(self):
        self.compare()

    def test_inherited_values_win_where_torchrun_lets_them(self):
        self.compare(OMP_NUM_THREADS="3", TORCH_NCCL_ASYNC_ERROR_HANDLING="0", MUSTER_TEST_VARIABLE="kept")


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
