# SPDX-License-Identifier: Apache-2.0
"""Runs jobs with what a wheel, the tarball or packages have installed; needs nothing but Python 3.9, whose `import muster` is what is tried. Run by
scripts/package.sh --check.

usage: try_installed.py PREFIX LIBRARIES

PREFIX is the folder with bin and share, LIBRARIES the one with libmuster.so.0.
"""

import contextlib
import ctypes
import importlib.util
import io
import os
import subprocess
import sys
import tempfile

import muster
from muster import _program

# Where each may lie; packages of Debian compress pages.
SHARED = (("man/man1/muster-run.1", "man/man1/muster-run.1.gz"), ("zsh/site-functions/_muster", "zsh/vendor-completions/_muster"),
          ("bash-completion/completions/muster",), ("muster/schema/report.json",))

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
        raise SystemExit(f"try_installed.py: {what}")
    print(f"ok: {what}")


def rank_and_fail(rank):
    if os.environ["RANK"] == str(rank):
        raise KeyError("a worker's error")
    return os.environ["WORLD_SIZE"]


class Installed:
    """What lies in the two folders."""

    def __init__(self, prefix, libraries):
        self.prefix, self.libraries = prefix, libraries
        self.program = os.path.join(prefix, "bin", "muster")

    def run(self, *arguments, **environment):
        return subprocess.run([self.program, "run", *arguments], capture_output=True, text=True, timeout=120, check=False,
                              env={"PATH": "/usr/bin:/bin", **environment})

    def try_files(self):
        said = subprocess.run([self.program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
        check(said.startswith("muster "), f"--version: {said.strip()}")
        for names in SHARED:
            check(any(os.path.exists(os.path.join(self.prefix, "share", name)) for name in names), f"share/{names[0]}")
        check(ctypes.CDLL(os.path.join(self.libraries, "muster", "libmuster_nccl.so")).muster_plugin_entry is not None,
              "the plug-in of NCCL is loaded, without NCCL")

    def try_script(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write("import os, sys\nprint(os.environ['RANK'], sys.prefix)\n"
                         "sys.exit(os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')\n")
            script.flush()
            ran = self.run("--nproc-per-node", "2", "--max-restarts", "1", script.name)
        check(ran.returncode == 0 and "restart 1 of 1" in ran.stderr, f"a script on two workers, with a restart\n{ran.stderr}".rstrip())
        check(f"0 {sys.prefix}\n" in ran.stdout, f"it is run by the python of {sys.prefix}, which nobody has activated")

    def try_module(self):
        check(_program.find_program() == self.program, f"import muster finds {self.program}")
        from try_installed import rank_and_fail as function  # one of a module needs no other package
        check(muster.launch(function, -1, nproc_per_node=2).results == {0: "2", 1: "2"}, "a function on two workers")
        if importlib.util.find_spec("cloudpickle"):
            check(muster.launch(lambda: 7, nproc_per_node=2).results == {0: 7, 1: 7}, "a function that has no module, by cloudpickle")
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                muster.launch(function, 1, nproc_per_node=2)
        except muster.WorkerFailed as error:
            check(error.worker.rank == 1 and "a worker's error" in str(error), "a worker's error is raised")
        else:
            check(False, "a worker's error is raised")

    def try_library(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(WORKER)
            script.flush()
            for backend in ("shm", "gloo"):
                ran = self.run("--nproc-per-node", "2", script.name, os.path.join(self.libraries, "libmuster.so.0"), MUSTER_BACKEND=backend)
                check(ran.returncode == 0 and ran.stdout.count("sum 3.0") == 2,
                      f"an all_reduce over {backend}, with libmuster.so.0\n{ran.stderr}".rstrip())

    def try_training(self):
        program = os.path.join(self.prefix, "bin", "muster-train")
        if not os.path.exists(program):
            return
        for backend in ("shm", "gloo"):
            ran = self.run("--nproc-per-node", "2", program, "--data", "synthetic:64", "--max-steps", "2", "--batch-size", "16",
                           MUSTER_BACKEND=backend)
            check(ran.returncode == 0 and "steps" in ran.stdout, f"muster-train over {backend}\n{ran.stderr}".rstrip())


def main(prefix, libraries):
    installed = Installed(prefix, libraries)
    installed.try_files()
    installed.try_script()
    installed.try_module()
    installed.try_library()
    installed.try_training()
    print(sys.version)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
