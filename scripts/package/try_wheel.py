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
LIBRARY = os.path.join(PREFIX, "lib", "libmuster.so.0")

# A worker that knows the C calls alone: sums its rank with those of the others and prints the sum.
WORKER = """
import ctypes, os, sys
muster = ctypes.CDLL(sys.argv[1])
muster.muster_error_text.restype = ctypes.c_char_p
def ok(code):
    if code != 0:
        sys.exit(muster.muster_error_text(None).decode())
world, group, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_double(int(os.environ["RANK"]) + 1)
ok(muster.muster_init(None, ctypes.byref(world)))
ok(muster.muster_group_world(world, ctypes.byref(group)))
ok(muster.muster_all_reduce(group, ctypes.byref(value), ctypes.byref(value), ctypes.c_uint64(1), 6, 0, None, None))
ok(muster.muster_finalize(world, ctypes.c_int64(0)))
print("sum", value.value)
"""


def check(holds, what):
    if not holds:
        raise SystemExit(f"try_wheel.py: {what}")
    print(f"ok: {what}")


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, "run", *arguments], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": "/usr/bin:/bin", **environment})


def rank_and_fail(rank):
    if os.environ["RANK"] == str(rank):
        raise KeyError("a worker's error")
    return os.environ["WORLD_SIZE"]


def main():
    check(subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout.startswith("muster "), "muster --version")
    for path in ("man/man1/muster-run.1", "zsh/site-functions/_muster", "muster/schema/report.json"):
        check(os.path.exists(os.path.join(PREFIX, "share", path)), f"share/{path}")
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
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(WORKER)
        script.flush()
        for backend in ("shm", "gloo"):
            ran = run("--nproc-per-node", "2", script.name, LIBRARY, MUSTER_BACKEND=backend)
            check(ran.returncode == 0 and ran.stdout.count("sum 3.0") == 2, f"an all_reduce over {backend}, with libmuster.so.0\n{ran.stderr}".rstrip())
    check(ctypes.CDLL(os.path.join(PREFIX, "lib", "muster", "libmuster_nccl.so")).muster_plugin_entry is not None,
          "the plug-in of NCCL is loaded, without NCCL")
    print(sys.version)


if __name__ == "__main__":
    main()
