# SPDX-License-Identifier: Apache-2.0
"""Runs programs for a limited time, and never waits for one that cannot be ended. Standard library only."""
import math
import os
import signal
import subprocess
import tempfile
import time

# What a process may take to end after it was told to, and again after it was killed.
END_SECONDS = 5


def end_group(process):
    """Ends what a program has started, also what outlives its first process; muster's own guardian ends its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):  # what is left may be a program of root's, such as nvidia-modprobe
            return
        if group_ends(process):
            return


def group_ends(process):
    """Whether nobody is left of the process group within END_SECONDS."""
    end = time.monotonic() + END_SECONDS
    while time.monotonic() < end:
        process.poll()  # the first process belongs to the group until its end is known here
        try:
            os.killpg(process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return True
        time.sleep(0.02)
    return False


def execute(command, environment, limit_s, *, stderr=subprocess.STDOUT):
    """Exit code, None after `limit_s` seconds, and output.

    What a broken driver holds in the kernel cannot be killed: it is left behind, because whoever waited for it would wait for ever."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=stderr, start_new_session=True)
        except OSError as error:
            return 127, f"cannot be started: {error}\n"
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)  # also where this program is told to end
        output.seek(0)
        return code, output.read()


def output_of(command, environment=None, *, timeout=20, end=math.inf, any_code=False):
    """What a program says on stdout; "" where it fails, unless its exit code is of no matter, or is not done after `timeout` seconds or at the
    time `end`."""
    limit_s = min(timeout, end - time.monotonic())
    if limit_s <= 0:
        return ""
    code, text = execute(command, environment, limit_s, stderr=subprocess.DEVNULL)
    return text if code == 0 or (any_code and code is not None) else ""


def having(mark):
    """Processes of this user that have `mark`, NAME=VALUE, in their environment."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if os.fsencode(mark) in file.read().split(b"\0") and int(entry) != os.getpid():
                    found.append(int(entry))
        except OSError:
            pass  # it has ended, or belongs to somebody else
    return found


def end_leftovers(mark):
    """Kills what a call that was killed itself has left running, so that it does not share the GPU with the checks of this one."""
    end = time.monotonic() + END_SECONDS
    while True:
        found = having(mark)
        if not found or time.monotonic() > end:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
