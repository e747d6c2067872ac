#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job: two workers train on real CIFAR-10 images under `muster run`."""
import os
import re
import sys

from interop import CIFAR10, MUSTER, muster_run, need_cifar10

TRAIN = os.path.join(os.path.dirname(MUSTER), "muster-train")


def job(*arguments):
    result = muster_run(["--nproc-per-node", "2", TRAIN, "--model", "small-cnn", "--data", CIFAR10, *arguments],
                        timeout=300)
    assert "2 ranks, 1 thread each" in result.stdout, result.stdout
    assert result.stdout.count("parameter hash") == 1, result.stdout
    found = re.search(r"^test accuracy (\S+) %\nparameter hash ([0-9a-f]{16})$", result.stdout, re.MULTILINE)
    assert found, result.stdout
    return float(found[1]), found[2]


def main():
    need_cifar10()
    accuracy, parameters = job("--epochs", "3")
    print(f"test accuracy {accuracy} %, parameter hash {parameters}", flush=True)
    assert accuracy >= 50, accuracy
    assert job("--epochs", "3") == (accuracy, parameters), "the same seed and world size gave another result"
    failed = muster_run(["--nproc-per-node", "2", TRAIN, "--data", "/nonexistent"], check=False)
    assert failed.returncode == 1, failed
    assert "/nonexistent does not exist" in failed.stderr, failed.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
