#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight programs of PyTorch and its frameworks (docs/frameworks.md), unchanged under torchrun and under muster run: the same results.
usage: frameworks_test.py

The frameworks come from PyPI into build/frameworks, beside the PyTorch of build/venv; 77: they cannot be had."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

import interop
from interop import check

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frameworks")
ENVIRONMENT = os.path.join(interop.ROOT, "build", "frameworks")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
INSTALL_LIMIT_S = 600
# DeepSpeed compiles its first operation.
LIMIT_S = 240
# What ends otherwise than with success, and what has a second round.
CODES = {"recorded_failure": 1}
RESTARTS = {"fsdp2_dcp": 1}
# torchrun keeps the store of the first round, whose stale addresses often end the second one: it is tried again.
TRIES_OF_TORCHRUN = 3


def make_environment():
    """The frameworks in an environment of their own, which finds the PyTorch of build/venv."""
    requirements = os.path.join(HERE, "requirements.txt")
    made = os.path.join(ENVIRONMENT, "made")
    with open(requirements, encoding="utf-8") as file:
        wanted = file.read()
    if os.path.exists(made):
        with open(made, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    paths = subprocess.run([interop.TORCH_PYTHON, "-c", "import sys, sysconfig; print(sysconfig.get_path('purelib')); print(sys._base_executable)"],
                           capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")
    subprocess.run([paths[1], "-m", "venv", "--clear", ENVIRONMENT], check=True, timeout=120)
    with open(os.path.join(glob.glob(os.path.join(ENVIRONMENT, "lib", "python*", "site-packages"))[0], "pytorch.pth"), "w", encoding="utf-8") as file:
        file.write(paths[0] + "\n")
    # DeepSpeed has no wheel; with DS_BUILD_OPS=0 its sources are copied, and what is used is compiled then.
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for more in (["setuptools", "wheel"], ["--no-build-isolation", "-r", requirements]):
        try:
            subprocess.run([*pip, *more], env={**os.environ, "DS_BUILD_OPS": "0"}, timeout=INSTALL_LIMIT_S, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            interop.skip("PyPI cannot be reached in time, or has the frameworks no longer")
    with open(made, "w", encoding="utf-8") as file:
        file.write(wanted)


def results_of(launcher, program):
    """Exit code, what the ranks tell as results, all output, and seconds."""
    restarts = str(RESTARTS.get(program, 0))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        ran = interop.run([*launcher, "--nproc-per-node", "2", "--max-restarts", restarts, os.path.join(HERE, program + ".py"), folder],
                          check=False, timeout=LIMIT_S, cwd=folder, PYTHON_EXEC=PYTHON, DS_ACCELERATOR="cpu", HF_HUB_OFFLINE="1",
                          OMP_NUM_THREADS="1", TORCH_EXTENSIONS_DIR=os.path.join(ENVIRONMENT, "operations"),
                          PATH=os.path.dirname(PYTHON) + os.pathsep + os.environ["PATH"])
        took = time.monotonic() - begin
    # torchrun lets the lines of two ranks run into one.
    told = sorted(re.findall(r"RESULT.*?(?=RESULT|$)", ran.stdout, re.M))
    return ran.returncode, told, ran.stdout + ran.stderr, took


def main():
    interop.need_torch()
    make_environment()
    for program in sorted(os.path.splitext(name)[0] for name in os.listdir(HERE) if name.endswith(".py")):
        code, told, said, took = results_of([interop.MUSTER, "run"], program)
        check(code == CODES.get(program, 0), f"{program}: exit code {code}:\n{said}")
        check(told, f"{program} has told nothing:\n{said}")
        if program == "recorded_failure":
            check("ValueError: the data of rank 1 is bad" in said, f"{program}: the cause is not in the report:\n{said}")
        for _ in range(TRIES_OF_TORCHRUN if program in RESTARTS else 1):
            code_there, told_there, said_there, took_there = results_of([PYTHON, "-m", "torch.distributed.run"], program)
            if code_there == code:
                break
        if code_there != code and program in RESTARTS:
            print(f"{program}: {len(told)} results, {took:.1f} s; torchrun's second round fell {TRIES_OF_TORCHRUN} times", flush=True)
            continue
        check(code_there == code, f"{program}: exit code {code_there} under torchrun:\n{said_there}")
        check(told == told_there, f"{program}: {told}\nunder torchrun {told_there}")
        print(f"{program}: {len(told)} results alike, {took:.1f} s, under torchrun {took_there:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
