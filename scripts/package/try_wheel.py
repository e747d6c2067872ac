# SPDX-License-Identifier: Apache-2.0
"""Runs jobs with what the wheel has installed under MUSTER_WHEEL_PREFIX; needs nothing but Python 3.9. Run by scripts/package.sh --check."""

import contextlib
import ctypes
import io
import os
import subprocess
import sys
import tempfile

import muster

PREFIX = os.environ["MUSTER_WHEEL_PREFIX"]
PROGRAM = os.path.join(PREFIX, "bin", "muster")


def check(holds, what):
    if not holds:
        raise SystemExit(f"try_wheel.py: {what}")
    print(f"ok: {what if isinstance(what, str) else what}")


def run(*arguments):
    return subprocess.run([PROGRAM, "run", *arguments], capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})


def rank_and_fail(rank):
    if os.environ["RANK"] == str(rank):
        raise KeyError("a worker's error")
    return os.environ["WORLD_SIZE"]


def main():
    check(subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout.startswith("muster "), "muster --version")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write("import os, sys\nprint(os.environ['RANK'], sys.prefix)\n"
                     "sys.exit(os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')\n")
        script.flush()
        ran = run("--nproc-per-node", "2", "--max-restarts", "1", script.name)
        check(ran.returncode == 0 and "restart 1 of 1" in ran.stderr, "a script on two workers, with a restart")
        check(f"0 {PREFIX}\n" in ran.stdout, "the python of the environment runs it, which nobody has activated")
    check(muster.launch(rank_and_fail, -1, nproc_per_node=2).results == {0: "2", 1: "2"}, "a function on two workers")
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            muster.launch(rank_and_fail, 1, nproc_per_node=2)
    except muster.WorkerFailed as error:
        check(error.worker.rank == 1 and "a worker's error" in str(error), "a worker's error is raised")
    else:
        check(False, "a worker's error is raised")
    library = ctypes.CDLL(os.path.join(PREFIX, "lib", "libmuster.so.0"))

    check(library.muster_version() is not None, "libmuster.so.0 is loaded")
    print(sys.version)


if __name__ == "__main__":
    main()
