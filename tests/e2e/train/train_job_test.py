#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job: two workers train on real CIFAR-10 images under `muster run`."""
import re
import sys

from interop import CIFAR10, TRAIN, muster_run, need_cifar10


def main():
    need_cifar10()
    result = muster_run(["--nproc-per-node", "2", TRAIN, "--model", "small-cnn", "--data", CIFAR10, "--epochs", "3"], timeout=300)
    assert "2 ranks, 1 thread each" in result.stdout, result.stdout
    assert result.stdout.count("parameter hash") == 1, result.stdout
    found = re.search(r"^test accuracy (\S+) %\nparameter hash ([0-9a-f]{16})$", result.stdout, re.MULTILINE)
    assert found, result.stdout
    print(found[0], flush=True)
    assert float(found[1]) >= 50, found[1]
    return 0


if __name__ == "__main__":
    sys.exit(main())
