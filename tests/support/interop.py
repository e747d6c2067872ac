# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: where our programs and PyTorch are, running a command to its end (on a terminal, too), a store,
running a file's tests, skipping."""
import array
import atexit
import errno
import functools
import inspect
import json
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MUSTER = os.path.join(os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build", "release", "bin")), "muster")
TRAIN = os.path.join(os.path.dirname(MUSTER), "muster-train")
TORCH_PYTHON = os.environ.get("MUSTER_TORCH_PYTHON", os.path.join(ROOT, "build", "venv", "bin", "python"))
TORCHRUN = os.path.join(os.path.dirname(TORCH_PYTHON), "torchrun")
CIFAR10 = os.environ.get("MUSTER_TEST_CIFAR10", os.path.join(ROOT, "..", "shared", "data", "cifar-10-batches-bin"))

# What a launcher sets or reads; a test starts from an environment without it.
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME",
                      "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHON_EXEC",
                      "TORCH_NCCL_ASYNC_ERROR_HANDLING", "LOGLEVEL")


def sanitized():
    """Whether our programs are built with a sanitizer: everything takes several times as long, and there is one more library."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(MUSTER)), "CMakeCache.txt"), encoding="utf-8") as cache:
            return any(line.startswith("MUSTER_SANITIZE:") and line.strip().split("=", 1)[1] for line in cache)
    except FileNotFoundError:
        return False  # programs of an installation


def skip(reason):
    """Ends the program as skipped: CTest shows the reason."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


def need_torch():
    if not os.access(TORCH_PYTHON, os.X_OK) or not os.path.exists(TORCHRUN):
        skip(f"no PyTorch at {TORCH_PYTHON}; scripts/test.sh makes it where PyPI can be reached")


def need_cifar10():
    if not os.path.exists(os.path.join(CIFAR10, "data_batch_1.bin")):
        skip(f"no CIFAR-10 in {CIFAR10}; set MUSTER_TEST_CIFAR10")


@functools.lru_cache(maxsize=None)  # functools.cache is not in Python 3.8, with which scripts/check_gpu.sh runs this file, too
def absent():
    """A path at which there is nothing: in a fresh folder that nobody else can write to. One such as /nonexistent may be there on
    somebody's machine."""
    folder = tempfile.mkdtemp(prefix="muster-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, "absent")


def check(condition, what, details=""):
    if not condition:
        raise AssertionError(f"{what}\n{details}")


def free_port(host="127.0.0.1", family=socket.AF_INET):
    """A port at which nobody listens. If possible it lies below those that the kernel gives out by itself: no connection of another test gets
    it before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        own = range(1024, int(file.read().split()[0]) - 4000)  # well-known ones of programs lie above
    for port in [*random.sample(own, min(100, len(own))), 0]:
        with socket.socket(family) as probe:
            try:
                probe.bind((host, port))
                return probe.getsockname()[1]
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == 0:
                    raise


def clean_environment(**extra):
    """This process's environment without any launcher's variables, plus `extra`."""
    kept = {name: value for name, value in os.environ.items()
            if name not in LAUNCHER_VARIABLES and not name.startswith(("PET_", "TORCHELASTIC_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def run(command, *, timeout=240, check=True, cwd=None, **extra):
    """Runs `command` (in the folder `cwd`) to its end with `extra` environment; with `check`, a failure ends the test and shows the output."""
    result = subprocess.run([str(word) for word in command], env=clean_environment(**extra), timeout=timeout, cwd=cwd,
                            capture_output=True, text=True, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


def muster_run(arguments, *, python=TORCH_PYTHON, **keywords):
    return run([MUSTER, "run", *arguments], PYTHON_EXEC=python, **keywords)


def torchrun(arguments, **keywords):
    return run([TORCHRUN, *arguments], **keywords)


def float_tensors(path):
    """The tensors of a safetensors file that hold 32-bit floats."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin = file.tell()
        result = {}
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                file.seek(begin + entry["data_offsets"][0])
                result[name] = array.array("f", file.read(entry["data_offsets"][1] - entry["data_offsets"][0]))
        return result


class Rendezvous:
    """A context: `muster rendezvous` at a free port of loopback; `endpoint` is its host:port. Fails if it does not end in order."""

    def __enter__(self):
        self.process = subprocess.Popen([MUSTER, "rendezvous", "--listen", "127.0.0.1:0"], env=clean_environment(),
                                        stdout=subprocess.PIPE, text=True)
        self.endpoint = json.loads(self.process.stdout.readline())["endpoint"]
        self.host, self.port = self.endpoint.rsplit(":", 1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.close()
        code = self.process.wait(60)
        check(code == 0, f"muster rendezvous ended with {code}")


def read_terminal(ours, limit_s):
    """All that was written to a terminal, of which `ours` is our side, until nobody has the other side any more.

    A read may fail before what is in the buffers has been handed over: only one that fails after a hang-up was told, and with
    nothing left to be read, is the end."""
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    deadline = time.monotonic() + limit_s
    seen = b""
    while (left := deadline - time.monotonic()) > 0:
        for _, events in poll.poll(left * 1000):
            try:
                piece = os.read(ours, 65536)
            except OSError:
                piece = b""
            if not piece and events & select.POLLHUP and not events & select.POLLIN:
                return seen
            seen += piece
    raise AssertionError(f"somebody still has the terminal after {limit_s} s, which got {seen!r}")


def run_on_terminal(command, *, on=("stdout",), timeout=120, extra=None, **streams):
    """Runs `command` to its end with the streams `on` on a terminal: its exit code, and what the terminal got."""
    ours, theirs = os.openpty()
    try:
        with subprocess.Popen([str(word) for word in command], env=clean_environment(**(extra or {})),
                              **dict.fromkeys(on, theirs), **streams) as process:
            os.close(theirs)
            try:
                seen = read_terminal(ours, timeout)
                return process.wait(timeout), seen
            finally:
                process.kill()  # nothing, where it has ended
    finally:
        os.close(ours)


def run_tests(scope, *, without=""):
    """Runs the functions test_... of `scope` (a file's globals()) in their order, each with an empty folder if it takes one.

    A word on the command line runs only the tests whose names have it; those whose names have `without` are left out.
    Returns False if a test returned False, which stands for "a part was skipped"."""
    complete = True
    for name, test in list(scope.items()):
        if not name.startswith("test_") or (without and without in name):
            continue
        if any(word not in name for word in sys.argv[1:] if not word.startswith("-")):
            continue
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            complete = test(*[folder][:len(inspect.signature(test).parameters)]) is not False and complete
    return complete
