#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs torch_store_cases.py under the PyTorch of the test environment ("new") or the distribution's torch 1.13 ("old")."""
import os
import subprocess
import sys

import interop

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_store_cases.py")
OLD_PYTHON = "/usr/bin/python3"


def main():
    if not os.access(interop.MUSTER, os.X_OK):
        interop.skip(f"no {interop.MUSTER}; build it first")
    python = OLD_PYTHON
    if sys.argv[1] == "new":
        interop.need_torch()
        python = interop.TORCH_PYTHON
    elif subprocess.run([OLD_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        interop.skip(f"{OLD_PYTHON} has no torch (Debian's package python3-torch)")
    return subprocess.run([python, CASES], env=interop.clean_environment(), timeout=200, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
