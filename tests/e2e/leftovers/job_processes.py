# SPDX-License-Identifier: Apache-2.0
"""Starts a `muster run` whose every process carries a mark in its environment, and finds those processes."""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
import uuid

import processes

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
HERE = os.path.dirname(os.path.abspath(__file__))
# Ours that do not execute another program keep the names that they give themselves.
GUARDIAN, AGENT, STORE, CONSOLE = "muster:guardian", "muster:agent", "muster:store", "muster:console"


class MarkedJob:
    """A running `muster run`. Its processes are those with MUSTER_TEST_MARK=<mark> in their environment."""

    def __init__(self, worker, *flags, workers=2, environment=None):
        self.mark = uuid.uuid4().hex
        env = dict(os.environ, MUSTER_TEST_MARK=self.mark, **(environment or {}))
        command = [MUSTER, "run", "--nproc-per-node", str(workers), *flags, "--no-python", *worker]
        self.launcher = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, start_new_session=True)

    def processes(self):
        """{pid: name} of every living process with the mark."""
        return {pid: processes.name_of(pid) for pid in processes.marked(self.mark)}

    def guardian(self):
        """The launcher's first child, or None. Far faster than processes()."""
        return next(iter(processes.children(self.launcher.pid)), None)

    def ours(self, name):
        """The guardian's child of that name, or None."""
        guardian = self.guardian()
        return guardian and next(iter(processes.children(guardian, name)), None)

    def agent(self):
        return self.ours(AGENT)

    def first_fork(self):
        """Waits for the launcher's first child, without a pause: the moments matter."""
        return processes.wait_until(self.guardian, "the first fork of the launcher", 10, pause_s=0)

    def started(self, count):
        """Waits until `count` workers have said "ready"; returns what they printed so far."""
        lines = []
        while sum(b"ready" in line for line in lines) < count:
            line = self.launcher.stdout.readline()
            if not line:
                raise AssertionError("the job ended early: %r %r" % (lines, self.launcher.stderr.read()))
            lines.append(line)
        return lines

    def wait_for(self, word):
        """Waits until a worker has said that."""
        while word not in (line := self.launcher.stdout.readline()):
            if not line:
                raise AssertionError("the job ended before %r came: %r" % (word, self.launcher.stderr.read()))

    def said(self, text, seconds=60):
        """Reads stderr up to a line with `text`, and returns that line; end() returns what comes after it."""
        give_up = time.monotonic() + seconds
        seen = b""
        while time.monotonic() < give_up:
            if not select.select([self.launcher.stderr], [], [], 0.1)[0]:
                continue
            byte = os.read(self.launcher.stderr.fileno(), 1)
            if not byte:
                break
            seen += byte
            if byte == b"\n" and text.encode() in seen.splitlines()[-1]:
                return seen.splitlines()[-1].decode()
        self.kill()
        raise AssertionError("%r was not said: %r" % (text, seen))

    def end(self, seconds=20):
        """Waits for the launcher; returns (exit code, stdout, stderr)."""
        out, err = self.launcher.communicate(timeout=seconds)
        return self.launcher.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def left(self):
        return {pid: name for pid, name in self.processes().items() if pid != self.launcher.pid}

    def kill(self):
        """Every process of the job; returns them."""
        processes = self.processes()
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return processes

    def assert_nothing_left(self, within):
        """Every process of the job is gone within so many seconds; returns how long it took."""
        start = time.monotonic()
        while self.left():
            if time.monotonic() - start > within:
                raise AssertionError("left after %.2f s: %s" % (within, self.kill()))
        return time.monotonic() - start


class DetachedJob(MarkedJob):
    """One of `muster run --detach`, which is `launcher` here; the launcher that goes on without a terminal is `runs()`."""

    def __init__(self, worker, *flags):
        self.folder = tempfile.TemporaryDirectory()
        super().__init__(worker, "--detach", *flags, environment={"XDG_STATE_HOME": self.folder.name})

    def runs(self):
        """The launcher without a terminal, or None."""
        # What tries the folder before it is a child, too, and has none of its own.
        found = [pid for pid in processes.children(self.launcher.pid) if processes.children(pid, CONSOLE)]
        return next(iter(found), None)

    def console(self):
        """(pid of the launcher without a terminal, pid of its console process), or None."""
        detached = self.runs()
        console = detached and next(iter(processes.children(detached, CONSOLE)), None)
        return (detached, console) if console else None

    def status(self, name):
        """What is known of it when it has ended."""
        environment = {variable: value for variable, value in os.environ.items() if variable != "MUSTER_TEST_MARK"}
        return subprocess.run([MUSTER, "status", name], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=20, check=False).stdout
